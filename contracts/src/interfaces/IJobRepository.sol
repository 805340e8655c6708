// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Job, JobDefinition, JobId, JobStatus, JobTerms} from "../Types.sol";

/// @notice Stores the records of all jobs and enforces their life cycle. It transfers no credits.
/// Only MetaScheduler may write. MetaScheduler checks the rights of its callers.
interface IJobRepository {
    event JobCreated(JobId _jobId);
    event JobTransitionEvent(JobId _jobId, JobStatus _from, JobStatus _to);

    /// @notice The job does not exist, or its escrow would exceed 2^128 wei.
    error InvalidJob();

    /// @notice Stores a new PENDING job and returns its id.
    /// Assumption: the definition is within the bounds of Definitions.sol.
    function create(
        address customer,
        JobDefinition calldata definition,
        uint256 maxCost,
        bytes32 jobName,
        bool delegateSpendingAuthority
    ) external returns (JobId jobId);

    /// @notice Matches a PENDING job to a provider at a fixed price.
    function setMatched(JobId jobId, address provider, uint256 pricePerMinute) external;

    /// @notice Makes a matched or claimed job PENDING again, and clears its provider, price, claim
    /// time and pending top-up.
    function setUnmatched(JobId jobId) external;

    /// @notice Marks a matched job as claimed and returns the values that the claim emits for the
    /// provider.
    function setClaimed(JobId jobId)
        external
        returns (
            address customer,
            uint256 maxCost,
            uint256 pricePerMinute,
            JobDefinition memory definition
        );

    /// @notice Marks a claimed job as running since `startTime`.
    function setRunning(JobId jobId, uint256 startTime) external;

    /// @notice Stores a provider's report about a running job. If `lastError` is empty, the stored
    /// error remains.
    function setReport(JobId jobId, int64 exitCode, string calldata lastError) external;

    /// @notice Ends a job. If `lastError` is empty, the stored error remains.
    function setEnded(
        JobId jobId,
        JobStatus status,
        uint256 finalCost,
        int64 exitCode,
        string calldata lastError
    ) external;

    /// @notice Stores that the customer has requested to cancel the job.
    function setCancelRequested(JobId jobId) external;

    /// @notice Sets whether other accounts may top up the job from the customer's allowance.
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority) external;

    /// @notice Adds `amount` to the escrow. The top-up is pending until takeTopUp. Returns true if
    /// no earlier top-up is pending.
    function addTopUp(JobId jobId, uint256 amount) external returns (bool isFirst);

    /// @notice Clears the pending top-up. Returns the escrow before and after the top-up, and the
    /// price.
    function takeTopUp(JobId jobId)
        external
        returns (uint256 costBefore, uint256 costAfter, uint256 pricePerMinute);

    /// @notice The complete record. Reverts with InvalidJob if the job does not exist.
    function get(JobId jobId) external view returns (Job memory);

    /// @notice Several complete records. Reverts with InvalidJob if a job does not exist.
    function getMany(JobId[] calldata jobIds) external view returns (Job[] memory);

    /// @notice The record without its strings. Reverts with InvalidJob if the job does not exist.
    function terms(JobId jobId) external view returns (JobTerms memory);

    /// @notice Several records without their strings. Reverts with InvalidJob if a job does not
    /// exist.
    function termsMany(JobId[] calldata jobIds) external view returns (JobTerms[] memory);

    /// @notice The time up to which a run of the job may be billed, in seconds since 1970: the time
    /// of the customer's request to cancel the job, if the request was made before the start of the
    /// job was recorded. Otherwise the largest uint256. Reverts with InvalidJob if the job does not
    /// exist.
    function billUntil(JobId jobId) external view returns (uint256);

    /// @notice The times up to which runs of several jobs may be billed, in seconds since 1970, as
    /// in billUntil. Reverts with InvalidJob if a job does not exist.
    function billUntilMany(JobId[] calldata jobIds) external view returns (uint256[] memory);

    /// @notice The escrow, and the resources that the price depends on. Reverts with InvalidJob if
    /// the job does not exist.
    function resources(JobId jobId)
        external
        view
        returns (
            uint256 gpus,
            uint256 memPerCpu,
            uint256 cpusPerTask,
            uint256 ntasks,
            uint256 maxCost
        );

    /// @notice The price of one minute of run time, in wei of Credit, for all resources of the job
    /// together. The price is fixed at the match. Before the match it is 0.
    function pricePerMinute(JobId jobId) external view returns (uint256);

    /// @notice All jobs of a customer, oldest first. Warning: the result has no maximum length. Use
    /// getByCustomerPage to read it in parts.
    function getByCustomer(address customer) external view returns (JobId[] memory);

    /// @notice At most `howMany` jobs of a customer, starting at position `cursor`, and the
    /// position after the last returned job.
    function getByCustomerPage(address customer, uint256 cursor, uint256 howMany)
        external
        view
        returns (JobId[] memory jobIds, uint256 newCursor);

    /// @notice The number of jobs that a customer has ever requested.
    function jobCountByCustomer(address customer) external view returns (uint256);

    /// @notice The id of the newest job, which is also the number of jobs.
    function jobIdCounter() external view returns (uint256);

    /// @notice Whether `provider` may claim the job.
    function isClaimable(JobId jobId, address provider) external view returns (bool);

    /// @notice Whether `provider` must cancel the job.
    function isCancelling(JobId jobId, address provider) external view returns (bool);

    /// @notice Whether `provider` must extend the job, because of a pending top-up.
    function isToppedUp(JobId jobId, address provider) external view returns (bool);
}
