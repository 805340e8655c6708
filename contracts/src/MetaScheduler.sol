// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Roles} from "./access/Roles.sol";
import {IConstants} from "./interfaces/IConstants.sol";
import {ICredit} from "./interfaces/ICredit.sol";
import {IJobRepository} from "./interfaces/IJobRepository.sol";
import {IMetaScheduler} from "./interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "./interfaces/IProviderJobQueues.sol";
import {IProviderManager} from "./interfaces/IProviderManager.sol";
import {Billing} from "./libraries/Billing.sol";
import {Definitions} from "./libraries/Definitions.sol";
import {Lifecycle} from "./libraries/Lifecycle.sol";
import {
    JobDefinition,
    JobId,
    JobStatus,
    JobTerms,
    Match,
    ProviderPrices,
    Settlement,
    Start
} from "./Types.sol";

/// @notice MetaScheduler as IMetaScheduler describes it; the interface holds the documentation.
/// @dev Credits are pulled in last: if the pull fails, all that went before it is undone with it. They are paid out
/// last too, when the record already says that the job has ended, so a token that calls back finds nothing to take.
contract MetaScheduler is IMetaScheduler, Roles {
    using Lifecycle for JobStatus;

    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");
    string public constant version = "2.0.0";
    uint256 private constant SECONDS_PER_MINUTE = 60;
    uint256 private constant NEVER = type(uint256).max;

    ICredit public immutable credit;
    IConstants public immutable constants;
    IProviderManager public immutable providerManager;
    IProviderJobQueues public immutable providerJobQueues;
    IJobRepository public immutable jobs;

    bool public enableRequestNewJob = true;
    uint256 public accruedFees;

    constructor(
        ICredit _credit,
        IConstants _constants,
        IProviderManager _providerManager,
        IProviderJobQueues _providerJobQueues,
        IJobRepository _jobs
    ) {
        credit = _credit;
        constants = _constants;
        providerManager = _providerManager;
        providerJobQueues = _providerJobQueues;
        jobs = _jobs;
    }

    // For customers.

    /// @inheritdoc IMetaScheduler
    function requestNewJob(
        JobDefinition calldata definition,
        uint256 lockedCredits,
        bytes32 jobName,
        bool delegateSpendingAuthority
    ) public returns (JobId jobId) {
        if (!enableRequestNewJob) revert NewJobRequestDisabled();
        uint256 minimum = constants.minimumAmount();
        if (lockedCredits < minimum) revert InsufficientFunds(lockedCredits, minimum);
        if (!Definitions.isValid(definition)) revert InvalidJobDefinition();

        jobId = jobs.create(msg.sender, definition, lockedCredits, jobName, delegateSpendingAuthority);
        emit NewJobRequestEvent(jobId, msg.sender);
        emit JobRequested(jobId, msg.sender, lockedCredits);
        _pull(msg.sender, lockedCredits);
    }

    /// @inheritdoc IMetaScheduler
    function requestNewJobWithPermit(
        JobDefinition calldata definition,
        uint256 lockedCredits,
        bytes32 jobName,
        bool delegateSpendingAuthority,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external returns (JobId) {
        // Nothing to do on failure: whether the allowance suffices is judged when the credits are pulled.
        try credit.permit(msg.sender, address(this), lockedCredits, deadline, v, r, s) {} catch {}
        return requestNewJob(definition, lockedCredits, jobName, delegateSpendingAuthority);
    }

    /// @inheritdoc IMetaScheduler
    function cancelJob(JobId jobId) external {
        JobTerms memory job = jobs.terms(jobId);
        if (msg.sender != job.customer) revert CustomerOnly(msg.sender, job.customer);
        if (job.status.isCold()) revert JobHotStatusOnly(job.status);
        if (job.hasCancelRequest) return; // Asked again while it runs: the provider knows.

        jobs.setCancelRequested(jobId);
        emit JobCancelRequested(jobId, job.provider);
        if (job.status == JobStatus.RUNNING) _queue(IProviderJobQueues.Kind.CANCELLING, job.provider, jobId);
        else _endUnpaid(jobId, job, JobStatus.CANCELLED, "");
    }

    /// @inheritdoc IMetaScheduler
    function topUpJob(JobId jobId, uint256 amount) external {
        _topUp(jobId, jobs.terms(jobId), msg.sender, amount);
    }

    /// @inheritdoc IMetaScheduler
    function topUpJobDelegate(JobId jobId) external {
        JobTerms memory job = jobs.terms(jobId);
        if (
            msg.sender != job.customer && msg.sender != job.provider
                && !hasRole(METASCHEDULER_ROLE, msg.sender)
        ) {
            revert CustomerMetaSchedulerProviderOnly();
        }
        if (!job.delegateSpendingAuthority) revert NoSpendingAuthority();
        uint256 slice = constants.topUpSliceDurationMin();
        uint256 remaining = _remainingMinutes(job);
        if (remaining > slice) revert RemainingTimeAboveLimit(remaining, slice);

        _topUp(jobId, job, job.customer, slice * job.pricePerMinute);
    }

    /// @inheritdoc IMetaScheduler
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority) external {
        address customer = jobs.terms(jobId).customer;
        if (msg.sender != customer) revert CustomerOnly(msg.sender, customer);
        jobs.setDelegateSpendingAuthority(jobId, delegateSpendingAuthority);
    }

    // For the matching service.

    /// @inheritdoc IMetaScheduler
    function metaSchedule(JobId jobId, address provider) external onlyRole(METASCHEDULER_ROLE) {
        (bool valid, ProviderPrices memory prices) = providerManager.schedulingTerms(provider);
        if (!valid) revert ProviderNotJoined();
        (uint256 gpus, uint256 memPerCpu, uint256 cpusPerTask, uint256 ntasks) = jobs.resources(jobId);
        uint256 price = Definitions.pricePerMinute(gpus, memPerCpu, cpusPerTask, ntasks, prices);

        jobs.setMatched(jobId, provider, price);
        emit JobMatched(jobId, provider, price);
        _queue(IProviderJobQueues.Kind.CLAIMABLE, provider, jobId);
    }

    /// @inheritdoc IMetaScheduler
    function metaScheduleMany(Match[] calldata matches) external {
        for (uint256 i = 0; i < matches.length; ++i) {
            JobId jobId = matches[i].jobId;
            _attempt(jobId, abi.encodeCall(this.metaSchedule, (jobId, matches[i].provider)));
        }
    }

    /// @inheritdoc IMetaScheduler
    function timeoutJob(JobId jobId) external onlyRole(METASCHEDULER_ROLE) {
        _unmatch(jobId, jobs.terms(jobId));
    }

    /// @inheritdoc IMetaScheduler
    function panicJob(JobId jobId, string calldata lastError) external onlyRole(METASCHEDULER_ROLE) {
        JobTerms memory job = jobs.terms(jobId);
        if (job.status.isCold()) revert JobHotStatusOnly(job.status);
        _endUnpaid(jobId, job, JobStatus.PANICKED, lastError);
    }

    // For providers.

    /// @inheritdoc IMetaScheduler
    function claimNextJob() external {
        if (!providerManager.isJoined(msg.sender)) revert ProviderNotJoined();
        (JobId jobId, bool isExhausted) = _next(IProviderJobQueues.Kind.CLAIMABLE);
        if (JobId.unwrap(jobId) != 0) _claim(jobId);
        else if (isExhausted) revert IProviderJobQueues.NoJob();
    }

    /// @inheritdoc IMetaScheduler
    function claimJobs(uint256 most) external returns (uint256 claimed) {
        if (!providerManager.isJoined(msg.sender)) revert ProviderNotJoined();
        for (; claimed < most; ++claimed) {
            (JobId jobId,) = _next(IProviderJobQueues.Kind.CLAIMABLE);
            if (JobId.unwrap(jobId) == 0) return claimed;
            _claim(jobId);
        }
    }

    /// @inheritdoc IMetaScheduler
    function refuseJob(JobId jobId) external {
        JobTerms memory job = _ofProvider(jobId);
        _unmatch(jobId, job);
    }

    /// @inheritdoc IMetaScheduler
    function refuseMany(JobId[] calldata jobIds) external {
        for (uint256 i = 0; i < jobIds.length; ++i) {
            _attempt(jobIds[i], abi.encodeCall(this.refuseJob, (jobIds[i])));
        }
    }

    /// @inheritdoc IMetaScheduler
    function setJobRunning(JobId jobId, uint64 startTime) external {
        _start(jobId, _ofProvider(jobId), startTime);
    }

    /// @inheritdoc IMetaScheduler
    function setRunningMany(Start[] calldata starts) external {
        for (uint256 i = 0; i < starts.length; ++i) {
            JobId jobId = starts[i].jobId;
            _attempt(jobId, abi.encodeCall(this.setJobRunning, (jobId, starts[i].startTime)));
        }
    }

    /// @inheritdoc IMetaScheduler
    function settleJob(
        JobId jobId,
        uint8 status,
        uint64 billedSeconds,
        int64 exitCode,
        string calldata lastError,
        bytes32 evidence
    ) external {
        JobTerms memory job = _ofProvider(jobId);
        JobStatus to = JobStatus(status);
        if (!to.isCold()) revert RunningColdStatusOnly(to);
        _settle(jobId, job, to, billedSeconds, exitCode, lastError, evidence);
    }

    /// @inheritdoc IMetaScheduler
    function settleMany(Settlement[] calldata settlements) external {
        for (uint256 i = 0; i < settlements.length; ++i) {
            Settlement calldata s = settlements[i];
            _attempt(
                s.jobId,
                abi.encodeCall(
                    this.settleJob, (s.jobId, s.status, s.billedSeconds, s.exitCode, s.lastError, s.evidence)
                )
            );
        }
    }

    /// @inheritdoc IMetaScheduler
    function providerSetJobStatus(
        JobId jobId,
        uint8 nextJobStatus,
        uint64 jobDurationMinute,
        string calldata lastError,
        int64 exitCode
    ) external {
        JobTerms memory job = _ofProvider(jobId);
        JobStatus to = JobStatus(nextJobStatus);
        if (to == JobStatus.RUNNING) return _start(jobId, job, block.timestamp);
        if (!to.isCold()) revert RunningColdStatusOnly(to);
        uint256 time = jobDurationMinute * SECONDS_PER_MINUTE;
        _settle(jobId, job, to, time, exitCode, lastError, bytes32(0));
    }

    /// @inheritdoc IMetaScheduler
    function claimNextCancellingJob() external {
        (JobId jobId, bool isExhausted) = _next(IProviderJobQueues.Kind.CANCELLING);
        if (JobId.unwrap(jobId) != 0) _claimCancellation(jobId);
        else if (isExhausted) _revertEmpty();
    }

    /// @inheritdoc IMetaScheduler
    function claimCancellations(uint256 most) external returns (uint256 claimed) {
        for (; claimed < most; ++claimed) {
            (JobId jobId,) = _next(IProviderJobQueues.Kind.CANCELLING);
            if (JobId.unwrap(jobId) == 0) return claimed;
            _claimCancellation(jobId);
        }
    }

    /// @inheritdoc IMetaScheduler
    function claimNextTopUpJob() external {
        (JobId jobId, bool isExhausted) = _next(IProviderJobQueues.Kind.TOP_UP);
        if (JobId.unwrap(jobId) != 0) _claimTopUp(jobId);
        else if (isExhausted) _revertEmpty();
    }

    /// @inheritdoc IMetaScheduler
    function claimTopUps(uint256 most) external returns (uint256 claimed) {
        for (; claimed < most; ++claimed) {
            (JobId jobId,) = _next(IProviderJobQueues.Kind.TOP_UP);
            if (JobId.unwrap(jobId) == 0) return claimed;
            _claimTopUp(jobId);
        }
    }

    // For anyone.

    /// @inheritdoc IMetaScheduler
    function expireJob(JobId jobId) external {
        JobTerms memory job = jobs.terms(jobId);
        if (job.status.isCold()) revert JobHotStatusOnly(job.status);
        uint256 expiry = _expiry(job);
        uint256 current = job.status == JobStatus.META_SCHEDULED ? block.number : block.timestamp;
        if (current <= expiry) revert NotExpired(job.status, expiry);

        if (job.status == JobStatus.META_SCHEDULED) _unmatch(jobId, job);
        else _endUnpaid(jobId, job, JobStatus.PANICKED, "expired");
    }

    // For the admin.

    /// @inheritdoc IMetaScheduler
    function setEnableRequestNewJob(bool enable) external onlyRole(DEFAULT_ADMIN_ROLE) {
        enableRequestNewJob = enable;
    }

    /// @inheritdoc IMetaScheduler
    function withdrawAdmin(uint256 amount) external onlyRole(DEFAULT_ADMIN_ROLE) {
        uint256 available = accruedFees;
        if (amount > available) revert InsufficientFunds(available, amount);
        accruedFees = available - amount;
        emit FeesWithdrawn(msg.sender, amount);
        _pay(msg.sender, amount);
    }

    // Steps of a job's life.

    function _claim(JobId jobId) private {
        (address customer, uint256 maxCost, uint256 price, JobDefinition memory definition) =
            jobs.setClaimed(jobId);
        emit ClaimJobEvent(customer, msg.sender, jobId, Billing.minutesDown(maxCost, price), definition);
        emit JobClaimed(jobId, msg.sender);
    }

    function _unmatch(JobId jobId, JobTerms memory job) private {
        if (job.status != JobStatus.META_SCHEDULED && job.status != JobStatus.SCHEDULED) {
            revert MetaScheduledScheduledStatusOnly(job.status);
        }
        jobs.setUnmatched(jobId);
        emit JobRefusedEvent(jobId, job.provider, job.customer);
        emit JobUnmatched(jobId, job.provider);
    }

    function _start(JobId jobId, JobTerms memory job, uint256 startTime) private {
        if (startTime > block.timestamp) startTime = block.timestamp;
        if (startTime < job.claimTime) startTime = job.claimTime;
        jobs.setRunning(jobId, startTime);
        providerManager.incJobCount(job.provider);
        emit JobStarted(jobId, job.provider, uint64(startTime)); // At most the time of the block.
    }

    function _settle(
        JobId jobId,
        JobTerms memory job,
        JobStatus to,
        uint256 time,
        int64 exitCode,
        string calldata lastError,
        bytes32 evidence
    ) private {
        uint256 cost = 0;
        uint256 fee = 0;
        // Who never ran is not billed, and a panic is the provider's own fault.
        if (job.status == JobStatus.RUNNING && to != JobStatus.PANICKED) {
            time = _capped(jobId, job, time);
            cost = Billing.costDown(time, job.pricePerMinute);
            if (cost > job.maxCost) cost = job.maxCost;
            fee = Billing.feeDown(cost, constants.deepsquareCut());
        } else {
            time = 0;
        }

        jobs.setEnded(jobId, to, cost, exitCode, lastError);
        accruedFees += fee;
        emit JobSettled(jobId, job.provider, to, cost, fee, uint64(time), evidence); // Capped, or 0.
        _pay(job.provider, cost - fee);
        _pay(job.customer, job.maxCost - cost);
    }

    /// @dev The seconds that may be billed: those reported, at most those since the start.
    function _capped(JobId jobId, JobTerms memory job, uint256 time) private returns (uint256) {
        uint256 elapsed = block.timestamp - job.startTime;
        if (time <= elapsed) return time;
        emit BilledTooMuchEvent(jobId, job.provider, (time + SECONDS_PER_MINUTE - 1) / SECONDS_PER_MINUTE);
        return elapsed;
    }

    /// @dev Ends a job without a bill and tells its provider, unless a request to cancel told it already.
    function _endUnpaid(JobId jobId, JobTerms memory job, JobStatus to, string memory lastError) private {
        jobs.setEnded(jobId, to, 0, 0, lastError);
        emit JobRefunded(jobId, job.customer, to, job.maxCost);
        if (job.provider != address(0) && !job.hasCancelRequest) {
            _queue(IProviderJobQueues.Kind.CANCELLING, job.provider, jobId);
        }
        _pay(job.customer, job.maxCost);
    }

    function _topUp(JobId jobId, JobTerms memory job, address payer, uint256 amount) private {
        if (job.status != JobStatus.SCHEDULED && job.status != JobStatus.RUNNING) {
            revert RunningScheduledStatusOnly(job.status);
        }
        if (amount == 0) return; // Accepted, for who sends it; there is nothing to tell the provider.
        bool isFirst = jobs.addTopUp(jobId, amount);
        emit JobToppedUp(jobId, job.provider, amount);
        if (isFirst) _queue(IProviderJobQueues.Kind.TOP_UP, job.provider, jobId);
        _pull(payer, amount);
    }

    function _claimCancellation(JobId jobId) private {
        emit ClaimNextCancellingJobEvent(jobs.terms(jobId).customer, msg.sender, jobId);
    }

    /// @dev Told are the minutes of the whole lock less those told before, so no fraction is ever lost.
    function _claimTopUp(JobId jobId) private {
        (uint256 before, uint256 later, uint256 price) = jobs.takeTopUp(jobId);
        uint64 told = Billing.minutesDown(later, price) - Billing.minutesDown(before, price);
        emit ClaimNextTopUpJobEvent(jobId, msg.sender, told);
    }

    // Helpers.

    function _ofProvider(JobId jobId) private view returns (JobTerms memory job) {
        job = jobs.terms(jobId);
        if (msg.sender != job.provider) revert JobProviderOnly(msg.sender, job.provider);
    }

    /// @dev Calls this contract as the same caller, so one element fails or succeeds as a whole and alone.
    function _attempt(JobId jobId, bytes memory call) private {
        (bool ok, bytes memory reason) = address(this).delegatecall(call);
        if (!ok) emit BatchElementSkipped(jobId, reason);
    }

    function _expiry(JobTerms memory job) private view returns (uint256) {
        if (job.status == JobStatus.META_SCHEDULED) return job.stateBlock + constants.claimJobTimeout();
        if (job.status == JobStatus.SCHEDULED) return job.claimTime + constants.startTimeout();
        if (job.status == JobStatus.PENDING) return NEVER;
        uint256 paid = Billing.paidSecondsUp(job.maxCost, job.pricePerMinute);
        return job.startTime + paid + constants.settleGrace();
    }

    /// @dev The whole minutes that are paid and not yet run; 0 for a job that is overdue.
    function _remainingMinutes(JobTerms memory job) private view returns (uint256) {
        uint256 paid = Billing.minutesDown(job.maxCost, job.pricePerMinute);
        if (job.status != JobStatus.RUNNING) return paid;
        uint256 run = (block.timestamp - job.startTime) / SECONDS_PER_MINUTE;
        return run >= paid ? 0 : paid - run;
    }

    function _queue(IProviderJobQueues.Kind kind, address provider, JobId jobId) private {
        providerJobQueues.push(kind, provider, jobId);
    }

    function _next(IProviderJobQueues.Kind kind) private returns (JobId jobId, bool isExhausted) {
        return providerJobQueues.pop(kind, msg.sender);
    }

    /// @dev A provider that was removed may still empty its queues; a stranger is told that he is one.
    function _revertEmpty() private view {
        if (!providerManager.isJoined(msg.sender)) revert ProviderNotJoined();
        revert IProviderJobQueues.NoJob();
    }

    function _pull(address from, uint256 amount) private {
        require(credit.transferFrom(from, address(this), amount), "MetaScheduler: credits not received");
    }

    function _pay(address to, uint256 amount) private {
        if (amount == 0) return;
        require(credit.transfer(to, amount), "MetaScheduler: credits not sent");
    }
}
