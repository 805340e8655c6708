// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AccessControl} from "@openzeppelin/contracts/access/AccessControl.sol";

import {IConstants} from "./interfaces/IConstants.sol";
import {ICredit} from "./interfaces/ICredit.sol";
import {IJobRepository} from "./interfaces/IJobRepository.sol";
import {IMetaScheduler} from "./interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "./interfaces/IProviderJobQueues.sol";
import {IProviderManager} from "./interfaces/IProviderManager.sol";
import {JobSteps} from "./JobSteps.sol";
import {Definitions} from "./libraries/Definitions.sol";
import {GasFloors} from "./libraries/GasFloors.sol";
import {Lifecycle} from "./libraries/Lifecycle.sol";
import {JobDefinition, JobId, JobStatus, JobTerms, Match, Settlement, Start} from "./Types.sol";

/// @notice Implements IMetaScheduler; the documentation is in the interface.
/// This contract checks the rights of callers. JobSteps.sol implements the effects of the calls.
contract MetaScheduler is JobSteps, AccessControl {
    using Lifecycle for JobStatus;

    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");
    string public constant version = "3.0.0";
    bool public enableRequestNewJob = true;

    constructor(
        address _admin,
        ICredit _credit,
        IConstants _constants,
        IProviderManager _providerManager,
        IProviderJobQueues _providerJobQueues,
        IJobRepository _jobs
    ) JobSteps(_credit, _constants, _providerManager, _providerJobQueues, _jobs) {
        _grantRole(DEFAULT_ADMIN_ROLE, _admin);
    }

    // Functions for customers.

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
        GasFloors.check(GasFloors.ofRequest());

        jobId =
            jobs.create(msg.sender, definition, lockedCredits, jobName, delegateSpendingAuthority);
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
        // A failure of the permit is ignored, because the transfer of the credits checks the
        // allowance.
        try credit.permit(msg.sender, address(this), lockedCredits, deadline, v, r, s) {} catch {}
        return requestNewJob(definition, lockedCredits, jobName, delegateSpendingAuthority);
    }

    /// @inheritdoc IMetaScheduler
    function cancelJob(JobId jobId) external {
        JobTerms memory job = jobs.terms(jobId);
        if (msg.sender != job.customer) revert CustomerOnly(msg.sender, job.customer);
        if (job.status.isCold()) revert JobHotStatusOnly(job.status);
        if (job.hasCancelRequest) return; // An earlier request has already notified the provider.
        GasFloors.check(GasFloors.CANCEL);

        jobs.setCancelRequested(jobId);
        emit JobCancelRequested(jobId, job.provider);
        // After the claim, only the provider knows whether the job runs.
        if (job.status == JobStatus.SCHEDULED || job.status == JobStatus.RUNNING) {
            _queue(IProviderJobQueues.Kind.CANCELLING, job.provider, jobId);
        } else {
            _endUnpaid(jobId, job, JobStatus.CANCELLED, "");
        }
    }

    /// @inheritdoc IMetaScheduler
    function topUpJob(JobId jobId, uint256 amount) external {
        JobTerms memory job = jobs.terms(jobId);
        _checkTopUpAllowed(job.status);
        _topUp(jobId, job, msg.sender, amount);
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
        // A request to cancel revokes the authority. Therefore a provider that continues the job
        // cannot spend more credits of the customer.
        if (!job.delegateSpendingAuthority || job.hasCancelRequest) revert NoSpendingAuthority();
        _checkTopUpAllowed(job.status);
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

    // Functions for the matching service.

    /// @inheritdoc IMetaScheduler
    function metaSchedule(JobId jobId, address provider) external onlyRole(METASCHEDULER_ROLE) {
        if (!providerManager.isValidForScheduling(provider)) revert ProviderNotJoined();
        _matchAt(jobId, provider, providerManager.recentPrices(provider), type(uint256).max);
    }

    /// @inheritdoc IMetaScheduler
    function metaScheduleAtMost(JobId jobId, address provider, uint256 maxPricePerMinute)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        _match(jobId, provider, maxPricePerMinute);
    }

    /// @inheritdoc IMetaScheduler
    function metaScheduleMany(Match[] calldata matches) external {
        for (uint256 i = 0; i < matches.length; ++i) {
            Match calldata m = matches[i];
            _attempt(
                m.jobId,
                abi.encodeCall(this.metaScheduleAtMost, (m.jobId, m.provider, m.maxPricePerMinute))
            );
        }
    }

    /// @inheritdoc IMetaScheduler
    function timeoutJob(JobId jobId) external onlyRole(METASCHEDULER_ROLE) {
        _unmatch(jobId, jobs.terms(jobId));
    }

    /// @inheritdoc IMetaScheduler
    function panicJob(JobId jobId, string calldata lastError)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        JobTerms memory job = jobs.terms(jobId);
        if (job.status.isCold()) revert JobHotStatusOnly(job.status);
        _endUnpaid(jobId, job, JobStatus.PANICKED, lastError);
    }

    // Functions for providers.

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
        _unmatch(jobId, _termsForProvider(jobId));
    }

    /// @inheritdoc IMetaScheduler
    function refuseMany(JobId[] calldata jobIds) external {
        for (uint256 i = 0; i < jobIds.length; ++i) {
            _attempt(jobIds[i], abi.encodeCall(this.refuseJob, (jobIds[i])));
        }
    }

    /// @inheritdoc IMetaScheduler
    function setJobRunning(JobId jobId, uint64 startTime) external {
        _start(jobId, _termsForProvider(jobId), startTime);
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
        JobTerms memory job = _termsForProvider(jobId);
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
                    this.settleJob,
                    (s.jobId, s.status, s.billedSeconds, s.exitCode, s.lastError, s.evidence)
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
        JobTerms memory job = _termsForProvider(jobId);
        JobStatus to = JobStatus(nextJobStatus);
        if (to == JobStatus.RUNNING) {
            _start(jobId, job, block.timestamp);
            if (exitCode != 0 || bytes(lastError).length != 0) {
                jobs.setReport(jobId, exitCode, lastError);
            }
            return;
        }
        if (!to.isCold()) revert RunningColdStatusOnly(to);
        _settle(
            jobId, job, to, jobDurationMinute * SECONDS_PER_MINUTE, exitCode, lastError, bytes32(0)
        );
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

    // Functions for any account.

    /// @inheritdoc IMetaScheduler
    function expireJob(JobId jobId) external {
        JobTerms memory job = jobs.terms(jobId);
        if (job.status.isCold()) revert JobHotStatusOnly(job.status);
        _expire(jobId, job);
    }

    // Functions for the admin.

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
}
