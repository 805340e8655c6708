// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Job, JobDefinition, JobId, JobStatus, JobTerms} from "../Types.sol";

/// @notice The records of all jobs. It keeps them and their life cycle; it moves no money and judges no caller
/// but MetaScheduler, which alone may write.
interface IJobRepository {
    event JobCreated(JobId _jobId);
    event JobTransitionEvent(JobId _jobId, JobStatus _from, JobStatus _to);

    /// @notice There is no such job, or a job would hold more than 2^128 wei.
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

    /// @notice Gives a PENDING job to a provider at a fixed price.
    function setMatched(JobId jobId, address provider, uint256 pricePerMinute) external;

    /// @notice Takes a job that does not run yet from its provider: back to PENDING, without price and claim.
    function setUnmatched(JobId jobId) external;

    /// @notice Marks a matched job as claimed and returns what the provider must know.
    function setClaimed(JobId jobId)
        external
        returns (address customer, uint256 maxCost, uint256 pricePerMinute, JobDefinition memory definition);

    /// @notice Marks a claimed job as running since `startTime`.
    function setRunning(JobId jobId, uint256 startTime) external;

    /// @notice Stores what a provider reports of a job that goes on. An empty `lastError` leaves the stored one.
    function setReport(JobId jobId, int64 exitCode, string calldata lastError) external;

    /// @notice Ends a job. An empty `lastError` leaves the stored one.
    function setEnded(
        JobId jobId,
        JobStatus status,
        uint256 finalCost,
        int64 exitCode,
        string calldata lastError
    ) external;

    /// @notice Notes that the customer wants the job cancelled.
    function setCancelRequested(JobId jobId) external;

    /// @notice Sets whether others may top up the job from the customer's allowance.
    function setDelegateSpendingAuthority(JobId jobId, bool delegateSpendingAuthority) external;

    /// @notice Adds to the lock. Returns whether no earlier top-up waited for its provider.
    function addTopUp(JobId jobId, uint256 amount) external returns (bool isFirst);

    /// @notice Empties the waiting top-up and returns the lock without and with it, and the price.
    function takeTopUp(JobId jobId)
        external
        returns (uint256 costBefore, uint256 costAfter, uint256 pricePerMinute);

    /// @notice The whole record. Reverts with InvalidJob if there is none.
    function get(JobId jobId) external view returns (Job memory);

    /// @notice Several whole records. Reverts with InvalidJob if one is missing.
    function getMany(JobId[] calldata jobIds) external view returns (Job[] memory);

    /// @notice The record without its texts. Reverts with InvalidJob if there is none.
    function terms(JobId jobId) external view returns (JobTerms memory);

    /// @notice Several records without their texts. Reverts with InvalidJob if one is missing.
    function termsMany(JobId[] calldata jobIds) external view returns (JobTerms[] memory);

    /// @notice The counts that a price is made of, and the lock that pays it. Reverts with InvalidJob if there is
    /// none.
    function resources(JobId jobId)
        external
        view
        returns (uint256 gpus, uint256 memPerCpu, uint256 cpusPerTask, uint256 ntasks, uint256 maxCost);

    /// @notice The price of the whole job per minute, in wei, as fixed at its match; 0 before a match.
    function pricePerMinute(JobId jobId) external view returns (uint256);

    /// @notice All jobs of a customer, oldest first. Warning: unbounded; see getByCustomerPage.
    function getByCustomer(address customer) external view returns (JobId[] memory);

    /// @notice Jobs of a customer from position `cursor`, at most `howMany`, and the position after them.
    function getByCustomerPage(address customer, uint256 cursor, uint256 howMany)
        external
        view
        returns (JobId[] memory jobIds, uint256 newCursor);

    /// @notice How many jobs a customer ever had.
    function jobCountByCustomer(address customer) external view returns (uint256);

    /// @notice The id of the newest job, which is the number of jobs.
    function jobIdCounter() external view returns (uint256);

    /// @notice Whether `provider` may claim the job.
    function isClaimable(JobId jobId, address provider) external view returns (bool);

    /// @notice Whether `provider` should stop the job.
    function isCancelling(JobId jobId, address provider) external view returns (bool);

    /// @notice Whether `provider` should prolong the job.
    function isToppedUp(JobId jobId, address provider) external view returns (bool);
}
