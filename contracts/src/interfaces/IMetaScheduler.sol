// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobDefinition, JobId, JobStatus, Match, Settlement, Start} from "../Types.sol";

/// @notice The contract that customers, providers and the matching service call. It checks the
/// rights of callers and transfers the escrow; JobRepository stores the records.
///
/// Assumptions on Credit:
/// - A transfer either moves exactly its amount, or it moves nothing and returns false or reverts.
/// - A transfer from this contract's balance to a customer or provider succeeds. Otherwise a job
///   might not end.
interface IMetaScheduler {
    // These contracts are derived from DeepSquare 1.2. The events in this section are those of its
    // published ABI. No field of these events is indexed.
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

    // Events that DeepSquare 1.2 does not have. A provider or a customer can filter them by its
    // address in an indexed field, and thus find the events of its own jobs.
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

    // Errors of the published ABI. A status is hot if the job has not ended, and cold if the job
    // has ended (see JobStatus in Types.sol).
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
    // Errors that DeepSquare 1.2 does not have.
    /// @notice The provider's price is above the maximum price of the match. Both are the price of
    /// one minute of run time, in wei of Credit, for all resources of the job together.
    error PriceAboveLimit(uint256 price, uint256 limit);
    /// @notice The job cannot be expired before `expiry` has passed. For a META_SCHEDULED job,
    /// `expiry` is a block number. For a SCHEDULED or RUNNING job, it is a time in seconds since
    /// 1970. A PENDING job never expires: `expiry` is then the largest uint256.
    error NotExpired(JobStatus current, uint256 expiry);

    // Functions for customers.

    /// @notice Requests a job, holds credits of the caller in escrow, and returns the job's id.
    function requestNewJob(
        JobDefinition calldata definition,
        uint256 lockedCredits,
        bytes32 jobName,
        bool delegateSpendingAuthority
    ) external returns (JobId);

    /// @notice Uses a permit (ERC-2612) that sets the caller's allowance to `lockedCredits`, and
    /// then does the same as requestNewJob. A failure of the permit is ignored, because another
    /// account may already have used the permit. In this case, the allowance is already set.
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

    /// @notice Ends a job that has not been claimed, with a full refund. For a claimed or running
    /// job, this is a request: the job may already run, so it keeps its state until its provider
    /// settles or refuses it, or until it expires. If the start of the job is not recorded yet, at
    /// most the run time until this call is billed. Further calls have no effect. A job with a
    /// provider is added to the provider's queue of jobs to cancel.
    function cancelJob(JobId jobId) external;

    /// @notice Adds credits of the caller to the escrow of a claimed or running job.
    /// Warning: unused credits are refunded to the customer, not to the caller.
    function topUpJob(JobId jobId, uint256 amount) external;

    /// @notice Adds the price of one slice to the escrow, from the customer's allowance. A slice is
    /// topUpSliceDurationMin minutes of run time. Reverts with RemainingTimeAboveLimit if the
    /// escrow still pays for more than one slice. Reverts with NoSpendingAuthority if the customer
    /// has not allowed such top-ups (see setDelegateSpendingAuthority) or has requested to cancel
    /// the job. The customer's own calls then also revert.
    /// Warning: if the customer has allowed such top-ups, the job's provider can spend the whole
    /// allowance, slice by slice, while it reports that the job runs.
    function topUpJobDelegate(JobId jobId) external;

    /// @notice Sets whether the caller's job may be topped up with topUpJobDelegate, by its
    /// provider, the matching service or the caller.
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority) external;

    // Functions for the matching service (METASCHEDULER_ROLE).

    /// @notice Matches a PENDING job to a provider and fixes the price. Reverts with
    /// InsufficientFunds(escrow, price) if the escrow does not pay for one minute at that price. The
    /// prices are the lowest ones of the provider's last minutes (IProviderManager.recentPrices),
    /// because the caller cannot give a maximum.
    function metaSchedule(JobId jobId, address provider) external;

    /// @notice Does the same as metaSchedule at the current prices, but reverts with PriceAboveLimit
    /// if the price is above a maximum. The maximum is the price of one minute of run time, in wei of Credit, for
    /// all resources of the job together. It protects the customer if the provider raises its
    /// prices after the matching service has chosen the provider.
    function metaScheduleAtMost(JobId jobId, address provider, uint256 maxPricePerMinute) external;

    /// @notice Does the same as metaScheduleAtMost for each element. An invalid element is skipped
    /// and emits BatchElementSkipped.
    function metaScheduleMany(Match[] calldata matches) external;

    /// @notice Makes a matched or claimed job PENDING again, without waiting for a timeout. A job
    /// whose customer requested to cancel it becomes CANCELLED, with a full refund.
    function timeoutJob(JobId jobId) external;

    /// @notice Ends a job in any hot state, with a full refund. A state is hot if the job has not
    /// ended.
    function panicJob(JobId jobId, string calldata lastError) external;

    // Functions for providers.

    /// @notice Claims the oldest job of the caller's queue. Reverts with NoJob if the queue is
    /// empty.
    function claimNextJob() external;

    /// @notice Claims at most `most` jobs, oldest first, and emits a ClaimJobEvent for each. Does
    /// not revert if the queue is empty.
    function claimJobs(uint256 most) external returns (uint256 claimed);

    /// @notice Refuses a matched or claimed job that has not started. The job becomes PENDING. If
    /// its customer requested to cancel it, the job becomes CANCELLED, with a full refund. A removed
    /// or banned provider can do nothing else with a job that it has not claimed.
    function refuseJob(JobId jobId) external;

    /// @notice Does the same as refuseJob for each element. An invalid element is skipped and emits
    /// BatchElementSkipped.
    function refuseMany(JobId[] calldata jobIds) external;

    /// @notice Reports that a job has been running since `startTime`. If the time is before the
    /// claim of the job, the time of the claim is stored. If it is in the future, the current time
    /// is stored.
    function setJobRunning(JobId jobId, uint64 startTime) external;

    /// @notice Does the same as setJobRunning for each element. An invalid element is skipped and
    /// emits BatchElementSkipped.
    function setRunningMany(Start[] calldata starts) external;

    /// @notice Ends a job and divides its escrow. The cost is floor(billedSeconds * price per
    /// minute / 60), but at most the escrow. The provider receives the cost minus the fee. The
    /// customer receives the escrow minus the cost. If `billedSeconds` exceeds the time since the
    /// start of the job, only the time since the start is billed. The time after a request to
    /// cancel that was made before the start was recorded is not billed. A job that never ran, or
    /// that ends as PANICKED, costs nothing.
    /// @param evidence The hash of the accounting record of the bill. The hash is emitted but not
    /// checked.
    function settleJob(
        JobId jobId,
        uint8 status,
        uint64 billedSeconds,
        int64 exitCode,
        string calldata lastError,
        bytes32 evidence
    ) external;

    /// @notice Does the same as settleJob for each element. An invalid element is skipped and emits
    /// BatchElementSkipped.
    function settleMany(Settlement[] calldata settlements) external;

    /// @notice Starts or settles a job. DeepSquare 1.2 has only this function for both. With status
    /// RUNNING, the function does the same as setJobRunning with the current time. With a cold
    /// status (the job has ended), it does the same as settleJob, but the billed time is in whole
    /// minutes and there is no evidence.
    function providerSetJobStatus(
        JobId jobId,
        uint8 nextJobStatus,
        uint64 jobDurationMinute,
        string calldata lastError,
        int64 exitCode
    ) external;

    /// @notice Removes the oldest cancellation from the caller's queue. Reverts with NoJob if the
    /// queue is empty.
    function claimNextCancellingJob() external;

    /// @notice Removes at most `most` cancellations, oldest first, and emits an event for each.
    function claimCancellations(uint256 most) external returns (uint256 claimed);

    /// @notice Removes the oldest top-up from the caller's queue. Reverts with NoJob if the queue
    /// is empty. Emits a ClaimNextTopUpJobEvent. The minutes in the job's last ClaimJobEvent and in
    /// all its later ClaimNextTopUpJobEvents add up to the minutes that the whole escrow pays for.
    function claimNextTopUpJob() external;

    /// @notice Removes at most `most` top-ups, oldest first, and emits an event for each.
    function claimTopUps(uint256 most) external returns (uint256 claimed);

    // Functions for any account.

    /// @notice Expires a job whose provider has not acted in time. A matched job that is not
    /// claimed within claimJobTimeout blocks becomes PENDING again. A claimed job that has not
    /// started within startTimeout seconds becomes PANICKED. A running job becomes PANICKED if it
    /// is not settled within settleGrace seconds after the end of its paid time. A request to
    /// cancel the job expires settleGrace seconds after the request, if that is earlier. A claimed
    /// job with a request becomes CANCELLED instead of PANICKED. In both states a job is refunded
    /// in full.
    function expireJob(JobId jobId) external;

    // Functions for the admin (DEFAULT_ADMIN_ROLE).

    /// @notice Sets whether the contracts accept new jobs. Existing jobs continue in both cases.
    function setEnableRequestNewJob(bool enable) external;

    /// @notice Transfers accrued fees to the caller. The escrow cannot be withdrawn.
    function withdrawAdmin(uint256 amount) external;

    /// @notice The accrued fees that have not been withdrawn.
    function accruedFees() external view returns (uint256);

    /// @notice The version of this ABI. The contracts of DeepSquare 1.2 do not have this function.
    function version() external view returns (string memory);
}
