// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {
    Job,
    JobCost,
    JobDefinition,
    JobId,
    JobStatus,
    JobTime,
    ProviderPrices
} from "../../src/Types.sol";
import {Roles1} from "./Access1.sol";
import {Constants1, Credit1} from "./Money1.sol";
import {ProviderManager1} from "./ProviderManager1.sol";
import {JobRepository1, ProviderJobQueues1} from "./Records1.sol";
import {Tools1} from "./Tools1.sol";

/// @notice A test double of contract MetaScheduler of DeepSquare 1.2. Our contracts are derived
/// from those of DeepSquare 1.2, and our clients also support a grid with the original contracts.
/// The double has the same selectors, events, errors and order of checks as the original. It also
/// has the faults of the original. It bills whole minutes, and at least one minute unless the
/// report is too high. It bills at the prices at the time of the settlement. A bill may exceed the
/// time since the start by 15 minutes. A job is also billed if its provider reports a panic.
contract MetaScheduler1 is Roles1 {
    bytes32 public constant METASCHEDULER_ROLE = keccak256("METASCHEDULER_ROLE");

    Credit1 public immutable credit;
    Constants1 public immutable constants;
    ProviderManager1 public immutable providerManager;
    ProviderJobQueues1 public immutable providerJobQueues;
    JobRepository1 public immutable jobs;
    bool public enableRequestNewJob = true;

    event BilledTooMuchEvent(JobId _jobId, address _providerAddr, uint256 _billingAmount);
    event ClaimJobEvent(
        address customerAddr,
        address providerAddr,
        JobId jobId,
        uint64 maxDurationMinute,
        JobDefinition jobDefinition
    );
    event ClaimNextCancellingJobEvent(address customerAddr, address providerAddr, JobId jobId);
    event ClaimNextTopUpJobEvent(JobId _jobId, address _providerAddr, uint64 maxDurationMinute);
    event JobRefusedEvent(JobId _jobId, address _providerAddr, address _customerAddr);
    event NewJobRequestEvent(JobId _jobId, address _customerAddr);

    error CustomerMetaSchedulerProviderOnly();
    error CustomerOnly(address current, address expected);
    error InsufficientFunds(uint256 available, uint256 required);
    error InvalidJobDefinition();
    error JobHotStatusOnly(JobStatus current);
    error JobProviderOnly(address current, address expected);
    error MetaScheduledScheduledStatusOnly(JobStatus current);
    error NewJobRequestDisabled();
    error NoSpendingAuthority();
    error ProviderNotJoined();
    error RemainingTimeAboveLimit(uint256 remaining, uint256 limit);
    error RunningColdStatusOnly(JobStatus current);
    error RunningScheduledStatusOnly(JobStatus current);

    modifier onlyJoined() {
        if (!providerManager.isValidForScheduling(msg.sender)) revert ProviderNotJoined();
        _;
    }

    constructor(
        Credit1 _credit,
        Constants1 _constants,
        ProviderManager1 _providerManager,
        ProviderJobQueues1 _providerJobQueues,
        JobRepository1 _jobs
    ) {
        credit = _credit;
        constants = _constants;
        providerManager = _providerManager;
        providerJobQueues = _providerJobQueues;
        jobs = _jobs;
    }

    function requestNewJob(
        JobDefinition calldata _definition,
        uint256 _lockedCredits,
        bytes32 _jobName,
        bool _delegateSpendingAuthority
    ) external returns (JobId jobId) {
        // In the original the field is an enum with five values. The decoder refuses other values.
        if (_definition.storageType > 4) revert();
        if (!enableRequestNewJob) revert NewJobRequestDisabled();
        uint256 minimum = constants.minimumAmount();
        if (_lockedCredits < minimum) revert InsufficientFunds(_lockedCredits, minimum);
        if (!Tools1.isValid(_definition)) revert InvalidJobDefinition();

        Job memory job;
        job.customerAddr = msg.sender;
        job.definition = _definition;
        job.cost.maxCost = _lockedCredits;
        job.cost.delegateSpendingAuthority = _delegateSpendingAuthority;
        job.time.submit = block.timestamp;
        job.time.cancelRequestTimestamp = block.timestamp;
        job.time.blockNumberStateChange = block.number;
        job.jobName = _jobName;
        jobId = jobs.create(job);
        credit.transferFrom(msg.sender, address(this), _lockedCredits);
        emit NewJobRequestEvent(jobId, msg.sender);
    }

    function metaSchedule(JobId _jobId, address _providerAddr)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        if (!providerManager.isValidForScheduling(_providerAddr)) {
            revert ProviderNotJoined();
        }
        jobs.setJobStatus(_jobId, JobStatus.META_SCHEDULED);
        jobs.setProviderAddr(_jobId, _providerAddr);
        providerJobQueues.pushClaimableJob(_providerAddr, _jobId);
    }

    function claimNextJob() external onlyJoined {
        JobId jobId = providerJobQueues.popNextClaimableJob(msg.sender);
        Job memory job = jobs.get(jobId);
        // After a refusal, the queue of another provider may have a stale entry of this job.
        address provider = job.providerAddr;
        ProviderPrices memory prices = providerManager.getProviderPrices(provider);
        uint64 minutes_ = Tools1.toDuration(job.definition, prices, job.cost.maxCost);
        emit ClaimJobEvent(job.customerAddr, provider, jobId, minutes_, job.definition);
        jobs.setJobStatus(jobId, JobStatus.SCHEDULED);
    }

    function providerSetJobStatus(
        JobId _jobId,
        JobStatus _nextJobStatus,
        uint64 _jobDurationMinute,
        string calldata _lastError,
        int64 _exitCode
    ) external {
        Job memory job = _ofProvider(_jobId);
        bool ends = Tools1.isCold(_nextJobStatus);
        if (_nextJobStatus != JobStatus.RUNNING && !ends) {
            revert RunningColdStatusOnly(_nextJobStatus);
        }
        if (bytes(_lastError).length > 0) jobs.setLastError(_jobId, _lastError);
        jobs.setExitCode(_jobId, _exitCode);
        Tools1.checkNewJobStatus(job.status, _nextJobStatus);
        if (ends) {
            // The credits move before the event of the transition.
            uint256 cost = job.status == JobStatus.RUNNING ? _bill(job, _jobDurationMinute) : 0;
            _end(job, cost, _nextJobStatus == JobStatus.PANICKED ? block.timestamp : 0);
        }
        jobs.setJobStatus(_jobId, _nextJobStatus);
        if (ends) return;
        providerManager.incJobCount(msg.sender);
        job.time.start = block.timestamp;
        jobs.setTime(_jobId, job.time);
    }

    function refuseJob(JobId _jobId) external {
        _takeBack(_ofProvider(_jobId));
    }

    function timeoutJob(JobId _jobId) external onlyRole(METASCHEDULER_ROLE) {
        Job memory job = jobs.get(_jobId);
        Tools1.checkNewJobStatus(job.status, JobStatus.PENDING);
        _takeBack(job);
    }

    function cancelJob(JobId _jobId) external {
        Job memory job = jobs.get(_jobId);
        if (Tools1.isCold(job.status)) revert JobHotStatusOnly(job.status);
        if (msg.sender != job.customerAddr) revert CustomerOnly(msg.sender, job.customerAddr);
        jobs.setHasCancelRequest(_jobId, true);
        job.time.cancelRequestTimestamp = block.timestamp;
        if (job.status == JobStatus.RUNNING) {
            jobs.setTime(_jobId, job.time);
            providerJobQueues.pushCancellingJob(job.providerAddr, _jobId);
            return;
        }
        _end(job, 0, 0);
        jobs.setJobStatus(_jobId, JobStatus.CANCELLED); // Its provider is not notified.
    }

    function claimNextCancellingJob() external onlyJoined {
        JobId jobId = providerJobQueues.popNextCancellingJob(msg.sender);
        emit ClaimNextCancellingJobEvent(jobs.get(jobId).customerAddr, msg.sender, jobId);
    }

    function topUpJob(JobId _jobId, uint256 _amount) external {
        _topUp(jobs.get(_jobId), msg.sender, _amount);
    }

    function topUpJobDelegate(JobId _jobId) external {
        Job memory job = jobs.get(_jobId);
        if (
            msg.sender != job.customerAddr && msg.sender != job.providerAddr
                && !hasRole[METASCHEDULER_ROLE][msg.sender]
        ) revert CustomerMetaSchedulerProviderOnly();
        if (!job.cost.delegateSpendingAuthority) revert NoSpendingAuthority();
        if (job.status != JobStatus.SCHEDULED && job.status != JobStatus.RUNNING) {
            revert RunningScheduledStatusOnly(job.status);
        }
        ProviderPrices memory prices = providerManager.getProviderPrices(job.providerAddr);
        uint256 run = job.time.start == 0 ? 0 : (block.timestamp - job.time.start) / 60;
        // If the job is overdue, this subtraction reverts.
        uint256 remaining = Tools1.toDuration(job.definition, prices, job.cost.maxCost) - run;
        uint256 slice = constants.topUpSliceDurationMin();
        if (remaining > slice) revert RemainingTimeAboveLimit(remaining, slice);
        _topUp(job, job.customerAddr, slice * Tools1.perMinute(job.definition, prices));
    }

    function claimNextTopUpJob() external onlyJoined {
        JobId jobId = providerJobQueues.popNextTopUpJob(msg.sender);
        Job memory job = jobs.get(jobId);
        ProviderPrices memory prices = providerManager.getProviderPrices(job.providerAddr);
        uint64 minutes_ = Tools1.toDuration(job.definition, prices, job.cost.pendingTopUp);
        job.cost.pendingTopUp = 0; // The fraction of a minute is lost.
        jobs.setCost(jobId, job.cost);
        emit ClaimNextTopUpJobEvent(jobId, msg.sender, minutes_);
    }

    function setDelegateSpendingAuthority(JobId _jobId, bool _delegateSpendingAuthority) external {
        Job memory job = jobs.get(_jobId);
        if (Tools1.isCold(job.status)) revert JobHotStatusOnly(job.status);
        if (msg.sender != job.customerAddr) revert CustomerOnly(msg.sender, job.customerAddr);
        job.cost.delegateSpendingAuthority = _delegateSpendingAuthority;
        jobs.setCost(_jobId, job.cost);
    }

    function panicJob(JobId _jobId, string calldata _lastError)
        external
        onlyRole(METASCHEDULER_ROLE)
    {
        Job memory job = jobs.get(_jobId);
        if (Tools1.isCold(job.status)) revert JobHotStatusOnly(job.status);
        jobs.setLastError(_jobId, _lastError);
        _end(job, 0, block.timestamp);
        jobs.setJobStatus(_jobId, JobStatus.PANICKED);
    }

    function setEnableRequestNewJob(bool _enable) external onlyRole(DEFAULT_ADMIN_ROLE) {
        enableRequestNewJob = _enable;
    }

    /// @dev Withdraws any part of the contract's balance, including the customers' escrow.
    function withdrawAdmin(uint256 _amount) external onlyRole(DEFAULT_ADMIN_ROLE) {
        credit.transfer(msg.sender, _amount);
    }

    function _ofProvider(JobId jobId) private view returns (Job memory job) {
        job = jobs.get(jobId);
        if (!providerManager.isValidForScheduling(msg.sender)) revert ProviderNotJoined();
        if (msg.sender != job.providerAddr) revert JobProviderOnly(msg.sender, job.providerAddr);
    }

    function _takeBack(Job memory job) private {
        if (job.status != JobStatus.META_SCHEDULED && job.status != JobStatus.SCHEDULED) {
            revert MetaScheduledScheduledStatusOnly(job.status);
        }
        emit JobRefusedEvent(job.jobId, job.providerAddr, job.customerAddr);
        jobs.setProviderAddr(job.jobId, address(0));
        jobs.setJobStatus(job.jobId, JobStatus.PENDING);
        job.time.cancelRequestTimestamp = 0;
        jobs.setTime(job.jobId, job.time);
    }

    function _topUp(Job memory job, address payer, uint256 amount) private {
        if (job.status != JobStatus.SCHEDULED && job.status != JobStatus.RUNNING) {
            revert RunningScheduledStatusOnly(job.status);
        }
        job.cost.maxCost += amount;
        job.cost.pendingTopUp += amount;
        jobs.setCost(job.jobId, job.cost);
        providerJobQueues.pushTopUpJob(job.providerAddr, job.jobId);
        credit.transferFrom(payer, address(this), amount);
    }

    /// @dev The cost of the reported minutes, but of at least one minute, at the provider's current
    /// prices. If the report exceeds the elapsed time and the slack, the cost of the elapsed whole
    /// minutes. The cost is at most the escrow.
    function _bill(Job memory job, uint256 reported) private returns (uint256 cost) {
        uint256 elapsed = (block.timestamp - job.time.start) / 60;
        uint256 minutes_ = reported == 0 ? 1 : reported;
        if (minutes_ > elapsed + constants.billDurationDeltaMinute()) {
            emit BilledTooMuchEvent(job.jobId, job.providerAddr, minutes_);
            minutes_ = elapsed; // 0 in the first minute
        }
        cost = minutes_
            * Tools1.perMinute(job.definition, providerManager.getProviderPrices(job.providerAddr));
        if (cost > job.cost.maxCost) cost = job.cost.maxCost;
    }

    function _end(Job memory job, uint256 cost, uint256 panickedAt) private {
        JobCost memory ended = job.cost;
        ended.finalCost = cost;
        jobs.setCost(job.jobId, ended);
        JobTime memory time = job.time;
        if (time.start == 0) time.start = block.timestamp; // It never ran.
        time.end = block.timestamp;
        time.panicTimestamp = panickedAt;
        jobs.setTime(job.jobId, time);
        uint256 cut = cost * constants.deepsquareCut() / 100;
        if (cost > cut) credit.transfer(job.providerAddr, cost - cut);
        credit.transfer(job.customerAddr, job.cost.maxCost - cost); // It may be 0.
    }
}
