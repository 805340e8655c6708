// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId} from "../Types.sol";
import {IJobRepository} from "./IJobRepository.sol";

/// @notice Three first-in-first-out queues per provider: jobs to claim, to cancel and to extend. An
/// entry is live while the provider must still claim, cancel or extend its job. Otherwise the entry
/// is stale. The sizes include stale entries. One pop removes a limited number of stale entries.
interface IProviderJobQueues {
    /// @notice The kinds of queues.
    enum Kind {
        CLAIMABLE,
        CANCELLING,
        TOP_UP
    }

    error NoJob();

    /// @notice Appends a job. Only the owner (MetaScheduler) may call this function.
    function push(Kind kind, address provider, JobId jobId) external;

    /// @notice Removes the first live entry, and at most 64 stale entries before it. Only the owner
    /// (MetaScheduler) may call this function.
    /// @return jobId The job, or 0 if no live entry was found.
    /// @return isExhausted Whether the queue is now empty. If `jobId` is 0 and the queue is not
    /// empty, another call continues the search.
    function pop(Kind kind, address provider) external returns (JobId jobId, bool isExhausted);

    /// @notice At most `most` live entries, oldest first. A job that was refused and matched again
    /// may be listed twice, but can be claimed only once.
    function peek(Kind kind, address provider, uint256 most)
        external
        view
        returns (JobId[] memory ids);

    /// @notice The repository that decides which entries are live.
    function jobs() external view returns (IJobRepository);

    /// @notice The number of entries of the queue, including stale entries.
    function getClaimableJobQueueSize(address provider) external view returns (uint256 length);

    /// @notice The number of entries of the queue, including stale entries.
    function getCancellingJobQueueSize(address provider) external view returns (uint256 length);

    /// @notice The number of entries of the queue, including stale entries.
    function getTopUpJobQueueSize(address provider) external view returns (uint256 length);

    /// @notice Whether claimNextJob would find a job, or at least remove stale entries.
    function hasNextClaimableJob(address provider) external view returns (bool);

    /// @notice Whether claimNextCancellingJob would find a job, or at least remove stale entries.
    function hasCancellingJob(address provider) external view returns (bool);

    /// @notice Whether claimNextTopUpJob would find a job, or at least remove stale entries.
    function hasTopUpJob(address provider) external view returns (bool);
}
