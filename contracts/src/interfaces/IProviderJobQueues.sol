// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId} from "../Types.sol";
import {IJobRepository} from "./IJobRepository.sol";

/// @notice Three first-in-first-out queues per provider: jobs to claim, to cancel and to prolong.
/// Shapes: an entry goes stale when its job moves on; stale entries count in the sizes, are skipped when popped,
/// and one call looks at no more than a fixed number of them.
interface IProviderJobQueues {
    /// @notice Which queue.
    enum Kind {
        CLAIMABLE,
        CANCELLING,
        TOP_UP
    }

    error NoJob();

    /// @notice Appends a job. For the owner (MetaScheduler) only.
    function push(Kind kind, address provider, JobId jobId) external;

    /// @notice Removes the first live entry, with at most 64 stale ones before it.
    /// For the owner (MetaScheduler) only.
    /// @return jobId The job, or 0 if there was none among the entries looked at.
    /// @return isExhausted Whether the queue is empty now. If `jobId` is 0 and it is not, asking again goes on.
    function pop(Kind kind, address provider) external returns (JobId jobId, bool isExhausted);

    /// @notice Up to `most` live entries from the front, oldest first. A job may be listed twice if it was given
    /// back and matched again; it can be claimed once.
    function peek(Kind kind, address provider, uint256 most) external view returns (JobId[] memory ids);

    /// @notice The repository that says which entries are live.
    function jobs() external view returns (IJobRepository);

    /// @notice Entries of the queue, with stale ones.
    function getClaimableJobQueueSize(address provider) external view returns (uint256 length);

    /// @notice Entries of the queue, with stale ones.
    function getCancellingJobQueueSize(address provider) external view returns (uint256 length);

    /// @notice Entries of the queue, with stale ones.
    function getTopUpJobQueueSize(address provider) external view returns (uint256 length);

    /// @notice Whether a claim finds a job, or at least stale entries to clear away.
    function hasNextClaimableJob(address provider) external view returns (bool);

    /// @notice Whether a claim of a cancellation finds a job, or at least stale entries to clear away.
    function hasCancellingJob(address provider) external view returns (bool);

    /// @notice Whether a claim of a top-up finds a job, or at least stale entries to clear away.
    function hasTopUpJob(address provider) external view returns (bool);
}
