// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobDefinition, JobId, JobStatus, Match, Settlement, Start} from "../Types.sol";

/// @notice The one contract that customers, providers and the matching service call: it judges callers, moves
/// the escrow and leaves the records to JobRepository.
///
/// Assumptions on Credit:
/// - a transfer moves exactly its amount, or returns false or reverts and moves nothing;
/// - for liveness: a transfer out of this contract's own balance to a customer or provider succeeds.
interface IMetaScheduler {
    // Events of the published ABI. None of their fields is indexed.
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

    // Events of our own: by their indexed fields a provider or a customer follows its own jobs alone.
    event JobRequested(JobId indexed jobId, address indexed customer, uint256 locked);
    event JobMatched(JobId indexed jobId, address indexed provider, uint256 pricePerMinute);
    event JobUnmatched(JobId indexed jobId, address indexed provider);
    event JobClaimed(JobId indexed jobId, address indexed provider);
    event JobStarted(JobId indexed jobId, address indexed provider, uint64 startTime);
    event JobCancelRequested(JobId indexed jobId, address indexed provider);
    event JobToppedUp(JobId indexed jobId, address indexed provider, uint256 amount);
    event JobSettled(
        JobId indexed jobId,
        address indexed provider,
        JobStatus status,
        uint256 cost,
        uint256 fee,
        uint64 billedSeconds,
        bytes32 evidence
    );
    event JobRefunded(
        JobId indexed jobId,
        address indexed customer,
        address indexed provider,
        JobStatus status,
        uint256 amount
    );
    event FeesWithdrawn(address indexed to, uint256 amount);
    event BatchElementSkipped(JobId jobId, bytes reason);

    // Errors of the published ABI.
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
    // Errors of our own.
    /// @notice The provider asks for more than the match accepts. Both are prices of the whole job per minute.
    error PriceAboveLimit(uint256 price, uint256 limit);
    /// @notice The job cannot be expired yet. `expiry` is a block for META_SCHEDULED, else seconds since 1970;
    /// it is the greatest number for a PENDING job, which its customer cancels himself.
    error NotExpired(JobStatus current, uint256 expiry);

    // For customers.

    /// @notice Locks credits of the caller and asks for a job. Returns its id.
    function requestNewJob(
        JobDefinition calldata definition,
        uint256 lockedCredits,
        bytes32 jobName,
        bool delegateSpendingAuthority
    ) external returns (JobId);

    /// @notice requestNewJob with the allowance signed instead of sent (ERC-2612) for exactly `lockedCredits`.
    /// A permit that fails is ignored: somebody may have used it already, and the allowance then suffices.
    function requestNewJobWithPermit(
        JobDefinition calldata definition,
        uint256 lockedCredits,
        bytes32 jobName,
        bool delegateSpendingAuthority,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external returns (JobId);

    /// @notice Ends a job that does not run, with a full refund, or asks its provider to end a running one.
    /// In both cases the provider, if any, finds the job in its cancelling queue.
    function cancelJob(JobId jobId) external;

    /// @notice Locks more credits of the caller for a claimed or running job.
    /// Warning: what is left over goes to the customer, not to the caller.
    function topUpJob(JobId jobId, uint256 amount) external;

    /// @notice Locks the price of one slice more, from the customer's allowance, when no more than a slice remains.
    /// Delegating lets the job's provider spend that allowance, slice by slice, for as long as it says that the job
    /// runs. A request to cancel ends the authority (NoSpendingAuthority), for the customer's own call too.
    function topUpJobDelegate(JobId jobId) external;

    /// @notice Sets whether provider and matching service may top up the caller's job.
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority) external;

    // For the matching service (METASCHEDULER_ROLE).

    /// @notice Gives a PENDING job to a provider and fixes the price. Reverts with InsufficientFunds(lock, price) if
    /// the lock does not pay one minute at that price.
    function metaSchedule(JobId jobId, address provider) external;

    /// @notice metaSchedule, unless the price of the whole job per minute is above a limit: providers change their
    /// prices freely, also between the choice of the matching service and its transaction.
    function metaScheduleAtMost(JobId jobId, address provider, uint256 maxPricePerMinute) external;

    /// @notice metaScheduleAtMost for each element; a bad one is reported by BatchElementSkipped.
    function metaScheduleMany(Match[] calldata matches) external;

    /// @notice Takes a job that does not run from its provider, back to PENDING, without waiting for its time.
    function timeoutJob(JobId jobId) external;

    /// @notice Ends any hot job with a full refund.
    function panicJob(JobId jobId, string calldata lastError) external;

    // For providers.

    /// @notice Claims the oldest job of the caller's queue. Reverts with NoJob if the queue is empty.
    function claimNextJob() external;

    /// @notice Claims up to `most` jobs, oldest first, with one ClaimJobEvent each. Never reverts for an empty queue.
    function claimJobs(uint256 most) external returns (uint256 claimed);

    /// @notice Gives a job back that does not run yet.
    function refuseJob(JobId jobId) external;

    /// @notice refuseJob for each element; a bad one is reported by BatchElementSkipped.
    function refuseMany(JobId[] calldata jobIds) external;

    /// @notice Reports that a job runs since `startTime`, saturated to between its claim and now.
    function setJobRunning(JobId jobId, uint64 startTime) external;

    /// @notice setJobRunning for each element; a bad one is reported by BatchElementSkipped.
    function setRunningMany(Start[] calldata starts) external;

    /// @notice Ends a job and pays: floor(seconds * price per minute / 60), at most the lock, for at most the
    /// seconds since its start; nothing if it never ran or if it PANICKED.
    /// @param evidence The hash of the accounting record behind the bill; emitted, not judged.
    function settleJob(
        JobId jobId,
        uint8 status,
        uint64 billedSeconds,
        int64 exitCode,
        string calldata lastError,
        bytes32 evidence
    ) external;

    /// @notice settleJob for each element; a bad one is reported by BatchElementSkipped.
    function settleMany(Settlement[] calldata settlements) external;

    /// @notice The old form of setJobRunning (the job runs since now) and of settleJob (in whole minutes).
    function providerSetJobStatus(
        JobId jobId,
        uint8 nextJobStatus,
        uint64 jobDurationMinute,
        string calldata lastError,
        int64 exitCode
    ) external;

    /// @notice Takes the oldest cancellation of the caller's queue. Reverts with NoJob if the queue is empty.
    function claimNextCancellingJob() external;

    /// @notice Takes up to `most` cancellations, oldest first, with one event each.
    function claimCancellations(uint256 most) external returns (uint256 claimed);

    /// @notice Takes the oldest top-up of the caller's queue. Reverts with NoJob if the queue is empty.
    /// The minutes told add up to exactly those that the whole lock buys.
    function claimNextTopUpJob() external;

    /// @notice Takes up to `most` top-ups, oldest first, with one event each.
    function claimTopUps(uint256 most) external returns (uint256 claimed);

    // For anyone.

    /// @notice Ends what its provider left lying: an unclaimed match goes back to PENDING after claimJobTimeout
    /// blocks; a claimed job that did not start in startTimeout seconds and a running one that was not settled
    /// settleGrace seconds after its paid time, or after a request to cancel it, become PANICKED with a full refund.
    function expireJob(JobId jobId) external;

    // For the admin (DEFAULT_ADMIN_ROLE).

    /// @notice Opens or closes this set of contracts for new jobs. Jobs that exist go on.
    function setEnableRequestNewJob(bool enable) external;

    /// @notice Sends accrued fees to the caller. The escrow is out of reach.
    function withdrawAdmin(uint256 amount) external;

    /// @notice The fees that were earned and not withdrawn.
    function accruedFees() external view returns (uint256);

    /// @notice The version of this ABI. Plain DeepSquare 1.2 has no such call.
    function version() external view returns (string memory);
}
