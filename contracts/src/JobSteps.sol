// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

import {IConstants} from "./interfaces/IConstants.sol";
import {ICredit} from "./interfaces/ICredit.sol";
import {IJobRepository} from "./interfaces/IJobRepository.sol";
import {IMetaScheduler} from "./interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "./interfaces/IProviderJobQueues.sol";
import {IProviderManager} from "./interfaces/IProviderManager.sol";
import {Billing} from "./libraries/Billing.sol";
import {Definitions} from "./libraries/Definitions.sol";
import {GasFloors} from "./libraries/GasFloors.sol";
import {JobDefinition, JobId, JobStatus, JobTerms, ProviderPrices} from "./Types.sol";

/// @notice The effects of each step of a job on records, queues and credits. MetaScheduler checks
/// the rights of the caller before a step. JobRepository checks whether the transition is legal.
/// @dev Credits are transferred last. If a transfer fails, the whole call reverts. Before credits
/// are paid out, the record gets its final state. Therefore a reentrant call by the token cannot
/// obtain more credits.
abstract contract JobSteps is IMetaScheduler {
    using SafeERC20 for ICredit;

    uint256 internal constant SECONDS_PER_MINUTE = 60;
    uint256 private constant NEVER = type(uint256).max;

    ICredit public immutable credit;
    IConstants public immutable constants;
    IProviderManager public immutable providerManager;
    IProviderJobQueues public immutable providerJobQueues;
    IJobRepository public immutable jobs;

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

    function _match(JobId jobId, address provider, uint256 maxPrice) internal {
        (bool valid, ProviderPrices memory prices) = providerManager.schedulingTerms(provider);
        if (!valid) revert ProviderNotJoined();
        _matchAt(jobId, provider, prices, maxPrice);
    }

    function _matchAt(JobId jobId, address provider, ProviderPrices memory prices, uint256 maxPrice)
        internal
    {
        (uint256 gpus, uint256 memPerCpu, uint256 cpusPerTask, uint256 ntasks, uint256 escrow) =
            jobs.resources(jobId);
        uint256 price = Definitions.pricePerMinute(gpus, memPerCpu, cpusPerTask, ntasks, prices);
        if (price > maxPrice) revert PriceAboveLimit(price, maxPrice);
        if (price > escrow) revert InsufficientFunds(escrow, price);

        jobs.setMatched(jobId, provider, price);
        emit JobMatched(jobId, provider, price);
        _queue(IProviderJobQueues.Kind.CLAIMABLE, provider, jobId);
    }

    function _claim(JobId jobId) internal {
        (address customer, uint256 maxCost, uint256 price, JobDefinition memory definition) =
            jobs.setClaimed(jobId);
        emit ClaimJobEvent(
            customer, msg.sender, jobId, Billing.minutesDown(maxCost, price), definition
        );
        emit JobClaimed(jobId, msg.sender);
    }

    function _unmatch(JobId jobId, JobTerms memory job) internal {
        if (job.status != JobStatus.META_SCHEDULED && job.status != JobStatus.SCHEDULED) {
            revert MetaScheduledScheduledStatusOnly(job.status);
        }
        // A job with a request to cancel must not be matched again.
        if (job.hasCancelRequest) return _endUnpaid(jobId, job, JobStatus.CANCELLED, "");
        jobs.setUnmatched(jobId);
        emit JobRefusedEvent(jobId, job.provider, job.customer);
        emit JobUnmatched(jobId, job.provider);
    }

    function _start(JobId jobId, JobTerms memory job, uint256 startTime) internal {
        if (startTime > block.timestamp) startTime = block.timestamp;
        if (startTime < job.claimTime) startTime = job.claimTime;
        jobs.setRunning(jobId, startTime);
        // The admin of ProviderManager can refuse the count. This must not stop a start.
        try providerManager.incJobCount(job.provider) {} catch {}
        emit JobStarted(jobId, job.provider, uint64(startTime)); // Safe: startTime is at most now.
    }

    function _settle(
        JobId jobId,
        JobTerms memory job,
        JobStatus to,
        uint256 billedSeconds,
        int64 exitCode,
        string calldata lastError,
        bytes32 evidence
    ) internal {
        // A removed or banned provider may only give back a job that it has not claimed.
        if (job.status == JobStatus.META_SCHEDULED && !providerManager.isJoined(job.provider)) {
            revert ProviderNotJoined();
        }
        uint256 cost = 0;
        uint256 fee = 0;
        // A job that never ran is not billed. A panic is the provider's fault and is not billed
        // either.
        if (job.status == JobStatus.RUNNING && to != JobStatus.PANICKED) {
            billedSeconds = _capSeconds(jobId, job, billedSeconds);
            cost = Billing.costDown(billedSeconds, job.pricePerMinute);
            if (cost > job.maxCost) cost = job.maxCost;
            fee = Billing.feeDown(cost, constants.deepsquareCut());
        } else {
            billedSeconds = 0;
        }

        jobs.setEnded(jobId, to, cost, exitCode, lastError);
        accruedFees += fee;
        // The cast is safe: the seconds are 0 or at most the time since the start.
        emit JobSettled(jobId, job.provider, to, cost, fee, uint64(billedSeconds), evidence);
        _pay(job.provider, cost - fee);
        _pay(job.customer, job.maxCost - cost);
    }

    /// @dev The reported seconds, limited to the seconds since the start. If the customer requested
    /// to cancel the job before its start was recorded, limited to the seconds until the request.
    function _capSeconds(JobId jobId, JobTerms memory job, uint256 reported)
        private
        returns (uint256)
    {
        uint256 until = block.timestamp;
        if (job.hasCancelRequest) {
            uint256 limit = jobs.billUntil(jobId);
            if (limit < until) until = limit;
        }
        uint256 elapsed = until > job.startTime ? until - job.startTime : 0;
        if (reported <= elapsed) return reported;
        emit BilledTooMuchEvent(
            jobId, job.provider, (reported + SECONDS_PER_MINUTE - 1) / SECONDS_PER_MINUTE
        );
        return elapsed;
    }

    /// @dev Ends a job without a bill. Adds the job to its provider's cancelling queue, unless a
    /// request to cancel has already added it.
    function _endUnpaid(JobId jobId, JobTerms memory job, JobStatus to, string memory lastError)
        internal
    {
        jobs.setEnded(jobId, to, 0, 0, lastError);
        emit JobRefunded(jobId, job.customer, job.provider, to, job.maxCost);
        if (job.provider != address(0) && !job.hasCancelRequest) {
            _queue(IProviderJobQueues.Kind.CANCELLING, job.provider, jobId);
        }
        _pay(job.customer, job.maxCost);
    }

    function _expire(JobId jobId, JobTerms memory job) internal {
        uint256 expiry = _expiry(jobId, job);
        uint256 current = job.status == JobStatus.META_SCHEDULED ? block.number : block.timestamp;
        if (current <= expiry) revert NotExpired(job.status, expiry);

        if (job.status == JobStatus.META_SCHEDULED) return _unmatch(jobId, job);
        bool isRequest = job.status == JobStatus.SCHEDULED && job.hasCancelRequest;
        _endUnpaid(jobId, job, isRequest ? JobStatus.CANCELLED : JobStatus.PANICKED, "expired");
    }

    function _topUp(JobId jobId, JobTerms memory job, address payer, uint256 amount) internal {
        if (amount == 0) return; // Existing clients expect no revert.
        GasFloors.check(GasFloors.TOP_UP);
        bool isFirst = jobs.addTopUp(jobId, amount);
        emit JobToppedUp(jobId, job.provider, amount);
        if (isFirst) _queue(IProviderJobQueues.Kind.TOP_UP, job.provider, jobId);
        _pull(payer, amount);
    }

    function _claimCancellation(JobId jobId) internal {
        emit ClaimNextCancellingJobEvent(jobs.terms(jobId).customer, msg.sender, jobId);
    }

    /// @dev Emits the minutes that the whole escrow pays for, minus the minutes that were emitted
    /// before. Therefore no fraction of a minute is lost.
    function _claimTopUp(JobId jobId) internal {
        (uint256 costBefore, uint256 costAfter, uint256 price) = jobs.takeTopUp(jobId);
        uint64 addedMinutes =
            Billing.minutesDown(costAfter, price) - Billing.minutesDown(costBefore, price);
        emit ClaimNextTopUpJobEvent(jobId, msg.sender, addedMinutes);
    }

    // Helpers.

    function _checkTopUpAllowed(JobStatus status) internal pure {
        if (status != JobStatus.SCHEDULED && status != JobStatus.RUNNING) {
            revert RunningScheduledStatusOnly(status);
        }
    }

    function _termsForProvider(JobId jobId) internal view returns (JobTerms memory job) {
        job = jobs.terms(jobId);
        if (msg.sender != job.provider) revert JobProviderOnly(msg.sender, job.provider);
    }

    /// @dev Calls a function of this contract with the same caller, so that each element of a batch
    /// is atomic and independent of the other elements.
    function _attempt(JobId jobId, bytes memory call) internal {
        (bool ok, bytes memory reason) = address(this).delegatecall(call);
        if (!ok) emit BatchElementSkipped(jobId, reason);
    }

    /// @dev The last block (of an unclaimed match) or the last second before the job can be
    /// expired.
    function _expiry(JobId jobId, JobTerms memory job) private view returns (uint256) {
        if (job.status == JobStatus.META_SCHEDULED) {
            return job.stateBlock + constants.claimJobTimeout();
        }
        if (job.status == JobStatus.PENDING) return NEVER;
        uint256 grace = constants.settleGrace();
        uint256 expiry = job.status == JobStatus.SCHEDULED
            ? job.claimTime + constants.startTimeout()
            : job.startTime + Billing.paidSecondsUp(job.maxCost, job.pricePerMinute) + grace;
        if (!job.hasCancelRequest) return expiry;
        uint256 requestExpiry = jobs.get(jobId).time.cancelRequestTimestamp + grace;
        return requestExpiry < expiry ? requestExpiry : expiry;
    }

    /// @dev The whole minutes that are paid for and have not elapsed. The result is 0 for an
    /// overdue job.
    function _remainingMinutes(JobTerms memory job) internal view returns (uint256) {
        uint256 paid = Billing.minutesDown(job.maxCost, job.pricePerMinute);
        if (job.status != JobStatus.RUNNING) return paid;
        uint256 elapsed = (block.timestamp - job.startTime) / SECONDS_PER_MINUTE;
        return elapsed >= paid ? 0 : paid - elapsed;
    }

    function _queue(IProviderJobQueues.Kind kind, address provider, JobId jobId) internal {
        providerJobQueues.push(kind, provider, jobId);
    }

    function _next(IProviderJobQueues.Kind kind) internal returns (JobId jobId, bool isExhausted) {
        return providerJobQueues.pop(kind, msg.sender);
    }

    /// @dev Reverts if the caller's queue is empty. A caller that is not a joined provider gets a
    /// more specific error. The caller's rights are not checked earlier, because a removed provider
    /// may still empty its queues.
    function _revertEmpty() internal view {
        if (!providerManager.isJoined(msg.sender)) revert ProviderNotJoined();
        revert IProviderJobQueues.NoJob();
    }

    function _pull(address from, uint256 amount) internal {
        credit.safeTransferFrom(from, address(this), amount);
    }

    function _pay(address to, uint256 amount) internal {
        if (amount == 0) return;
        credit.safeTransfer(to, amount);
    }
}
