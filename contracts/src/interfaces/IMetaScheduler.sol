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
    // Events of the published ABI of DeepSquare 1.2, from which these contracts are derived. No
    // field of these events is indexed.
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

    // Events that DeepSquare 1.2 does not have. With their indexed fields a provider or a customer
    // can read only the events of its own jobs.
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
    // Errors that DeepSquare 1.2 does not have.
    /// @notice The provider's price is above the maximum price of the match. Both are prices per
    /// minute of the whole job.
    error PriceAboveLimit(uint256 price, uint256 limit);
    /// @notice The job has not expired. `expiry` is a block number for META_SCHEDULED, otherwise
    /// seconds since 1970. A PENDING job never expires: `expiry` is then the largest uint256. Only its
    /// customer can cancel such a job.
    error NotExpired(JobStatus current, uint256 expiry);

    // Functions for customers.

    /// @notice Requests a job, holds credits of the caller in escrow, and returns the job's id.
    function requestNewJob(
        JobDefinition calldata definition,
        uint256 lockedCredits,
        bytes32 jobName,
        bool delegateSpendingAuthority
    ) external returns (JobId);

    /// @notice requestNewJob with a permit (ERC-2612) for exactly `lockedCredits` instead of an
    /// earlier allowance. A failure of the permit is ignored: if the permit has been used already,
    /// the allowance is sufficient.
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

    /// @notice Ends a job that has not started, with a full refund. For a running job, requests the
    /// provider to end it. In both cases, if the job has a provider, it is added to the cancelling
    /// queue of the provider.
    function cancelJob(JobId jobId) external;

    /// @notice Adds credits of the caller to the escrow of a claimed or running job.
    /// Warning: unused credits are refunded to the customer, not to the caller.
    function topUpJob(JobId jobId, uint256 amount) external;

    /// @notice Adds the price of one slice to the escrow, from the customer's allowance, if at most
    /// one slice remains. A request to cancel the job ends the authority for such top-ups. The
    /// function then reverts with NoSpendingAuthority, even if the customer calls it.
    /// Warning: with this authority, the job's provider can spend the whole allowance, slice by
    /// slice, while it reports that the job runs.
    function topUpJobDelegate(JobId jobId) external;

    /// @notice Sets whether the provider and the matching service may top up the caller's job.
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority) external;

    // Functions for the matching service (METASCHEDULER_ROLE).

    /// @notice Matches a PENDING job to a provider and fixes the price. Reverts with
    /// InsufficientFunds(escrow, price) if the escrow does not pay for one minute at that price.
    function metaSchedule(JobId jobId, address provider) external;

    /// @notice metaSchedule, with a maximum price per minute of the whole job. The maximum is
    /// useful because a provider may change its prices between the decision and the transaction of
    /// the matching service.
    function metaScheduleAtMost(JobId jobId, address provider, uint256 maxPricePerMinute) external;

    /// @notice metaScheduleAtMost for each element. An invalid element is skipped and emits
    /// BatchElementSkipped.
    function metaScheduleMany(Match[] calldata matches) external;

    /// @notice Returns a job that has not started to PENDING, without waiting for a timeout.
    function timeoutJob(JobId jobId) external;

    /// @notice Ends any hot job with a full refund.
    function panicJob(JobId jobId, string calldata lastError) external;

    // Functions for providers.

    /// @notice Claims the oldest job of the caller's queue. Reverts with NoJob if the queue is
    /// empty.
    function claimNextJob() external;

    /// @notice Claims at most `most` jobs, oldest first, and emits a ClaimJobEvent for each. Does
    /// not revert if the queue is empty.
    function claimJobs(uint256 most) external returns (uint256 claimed);

    /// @notice Refuses a matched or claimed job that has not started. The job becomes PENDING.
    function refuseJob(JobId jobId) external;

    /// @notice refuseJob for each element. An invalid element is skipped and emits
    /// BatchElementSkipped.
    function refuseMany(JobId[] calldata jobIds) external;

    /// @notice Reports that a job has been running since `startTime`. A time before the claim of
    /// the job counts as the time of the claim, and a time in the future as now.
    function setJobRunning(JobId jobId, uint64 startTime) external;

    /// @notice setJobRunning for each element. An invalid element is skipped and emits
    /// BatchElementSkipped.
    function setRunningMany(Start[] calldata starts) external;

    /// @notice Ends a job and pays its provider floor(seconds * price per minute / 60), at most the
    /// escrow, minus the fee. The seconds are limited to the time since the start of the job. A job
    /// that never ran or that PANICKED costs nothing.
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

    /// @notice settleJob for each element. An invalid element is skipped and emits
    /// BatchElementSkipped.
    function settleMany(Settlement[] calldata settlements) external;

    /// @notice The function of DeepSquare 1.2. With status RUNNING it does the same as
    /// setJobRunning with the current time; with a cold status, the same as settleJob with a time
    /// in whole minutes.
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
    /// is empty. The sum of all emitted minutes is the number of minutes that the whole escrow pays
    /// for.
    function claimNextTopUpJob() external;

    /// @notice Removes at most `most` top-ups, oldest first, and emits an event for each.
    function claimTopUps(uint256 most) external returns (uint256 claimed);

    // Functions for any account.

    /// @notice Ends the current step of a job after its timeout. An unclaimed match returns to
    /// PENDING after claimJobTimeout blocks. Two kinds of jobs become PANICKED with a full refund:
    /// a claimed job that has not started after startTimeout seconds, and a running job that is
    /// unsettled settleGrace seconds after its paid time or after a request to cancel it.
    function expireJob(JobId jobId) external;

    // Functions for the admin (DEFAULT_ADMIN_ROLE).

    /// @notice Opens or closes this set of contracts for new jobs. Existing jobs continue.
    function setEnableRequestNewJob(bool enable) external;

    /// @notice Transfers accrued fees to the caller. The escrow cannot be withdrawn.
    function withdrawAdmin(uint256 amount) external;

    /// @notice The accrued fees that have not been withdrawn.
    function accruedFees() external view returns (uint256);

    /// @notice The version of this ABI. The contracts of DeepSquare 1.2 do not have this function.
    function version() external view returns (string memory);
}
