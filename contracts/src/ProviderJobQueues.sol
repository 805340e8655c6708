// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {OwnershipOffer} from "./access/OwnershipOffer.sol";
import {IJobRepository} from "./interfaces/IJobRepository.sol";
import {IProviderJobQueues} from "./interfaces/IProviderJobQueues.sol";
import {JobId} from "./Types.sol";

/// @notice Implements IProviderJobQueues; the documentation is in the interface.
contract ProviderJobQueues is IProviderJobQueues, OwnershipOffer {
    /// @dev The entries are at the positions from `begin` up to, but not including, `end`. Four ids
    /// share a slot. Popped ids are not deleted, because a deletion costs more gas.
    struct Queue {
        uint128 begin;
        uint128 end;
        mapping(uint256 slot => uint256 ids) packed;
    }

    /// @notice The highest number of stale entries that one call skips.
    uint128 public constant MAX_SKIPPED = 64;
    uint256 private constant IDS_PER_SLOT = 4;
    uint256 private constant ID_BITS = 64;

    IJobRepository public immutable jobs;
    mapping(Kind => mapping(address provider => Queue)) private _queues;

    constructor(address _owner, IJobRepository _jobs) OwnershipOffer(_owner) {
        jobs = _jobs;
    }

    /// @inheritdoc IProviderJobQueues
    function push(Kind kind, address provider, JobId jobId) external onlyOwner {
        Queue storage queue = _queues[kind][provider];
        uint128 position = queue.end;
        queue.packed[position / IDS_PER_SLOT] |= uint256(JobId.unwrap(jobId))
        << (position % IDS_PER_SLOT * ID_BITS);
        queue.end = position + 1;
    }

    /// @inheritdoc IProviderJobQueues
    function pop(Kind kind, address provider)
        external
        onlyOwner
        returns (JobId jobId, bool isExhausted)
    {
        Queue storage queue = _queues[kind][provider];
        uint128 next;
        (jobId, next) = _nextLive(kind, provider, queue.begin);
        isExhausted = next == queue.end;
        queue.begin = next;
    }

    /// @inheritdoc IProviderJobQueues
    function peek(Kind kind, address provider, uint256 most)
        external
        view
        returns (JobId[] memory ids)
    {
        Queue storage queue = _queues[kind][provider];
        uint128 position = queue.begin;
        uint256 size = _size(queue);
        ids = new JobId[](most < size ? most : size);
        uint256 count = 0;
        while (count < ids.length) {
            (ids[count], position) = _nextLive(kind, provider, position);
            if (JobId.unwrap(ids[count]) == 0) break;
            ++count;
        }
        // The first word of an array is its length. Truncates the array to the found entries.
        assembly ("memory-safe") {
            mstore(ids, count)
        }
    }

    /// @inheritdoc IProviderJobQueues
    function getClaimableJobQueueSize(address provider) external view returns (uint256 length) {
        return _size(_queues[Kind.CLAIMABLE][provider]);
    }

    /// @inheritdoc IProviderJobQueues
    function getCancellingJobQueueSize(address provider) external view returns (uint256 length) {
        return _size(_queues[Kind.CANCELLING][provider]);
    }

    /// @inheritdoc IProviderJobQueues
    function getTopUpJobQueueSize(address provider) external view returns (uint256 length) {
        return _size(_queues[Kind.TOP_UP][provider]);
    }

    /// @inheritdoc IProviderJobQueues
    function hasNextClaimableJob(address provider) external view returns (bool) {
        return _hasNext(Kind.CLAIMABLE, provider);
    }

    /// @inheritdoc IProviderJobQueues
    function hasCancellingJob(address provider) external view returns (bool) {
        return _hasNext(Kind.CANCELLING, provider);
    }

    /// @inheritdoc IProviderJobQueues
    function hasTopUpJob(address provider) external view returns (bool) {
        return _hasNext(Kind.TOP_UP, provider);
    }

    /// @notice The first position of the queue, and the position after the last entry.
    function providerClaimableJobsQueues(address provider)
        external
        view
        returns (int128 _begin, int128 _end)
    {
        return _ends(Kind.CLAIMABLE, provider);
    }

    /// @notice The first position of the queue, and the position after the last entry.
    function providerCancellingJobsQueues(address provider)
        external
        view
        returns (int128 _begin, int128 _end)
    {
        return _ends(Kind.CANCELLING, provider);
    }

    /// @notice The first position of the queue, and the position after the last entry.
    function providerTopUpJobsQueues(address provider)
        external
        view
        returns (int128 _begin, int128 _end)
    {
        return _ends(Kind.TOP_UP, provider);
    }

    /// @dev The job of the first live entry at or after `position`, and the position after this
    /// entry. The search ends after MAX_SKIPPED stale entries; the returned job is then 0.
    function _nextLive(Kind kind, address provider, uint128 position)
        private
        view
        returns (JobId jobId, uint128 next)
    {
        Queue storage queue = _queues[kind][provider];
        uint128 end = queue.end;
        uint128 last = end - position > MAX_SKIPPED ? position + MAX_SKIPPED : end;
        for (next = position; next < last; ++next) {
            jobId = _entryAt(queue, next);
            if (_isLive(kind, jobId, provider)) return (jobId, next + 1);
        }
        return (JobId.wrap(0), next);
    }

    /// @dev Also true if the search found only stale entries and more entries follow. A claim then
    /// removes the stale entries.
    function _hasNext(Kind kind, address provider) private view returns (bool) {
        Queue storage queue = _queues[kind][provider];
        (JobId jobId, uint128 next) = _nextLive(kind, provider, queue.begin);
        return JobId.unwrap(jobId) != 0 || next < queue.end;
    }

    function _isLive(Kind kind, JobId jobId, address provider) private view returns (bool) {
        if (kind == Kind.CLAIMABLE) return jobs.isClaimable(jobId, provider);
        if (kind == Kind.CANCELLING) return jobs.isCancelling(jobId, provider);
        return jobs.isToppedUp(jobId, provider);
    }

    function _ends(Kind kind, address provider) private view returns (int128, int128) {
        Queue storage queue = _queues[kind][provider];
        return (int128(queue.begin), int128(queue.end)); // The positions never reach 2^127.
    }

    function _entryAt(Queue storage queue, uint256 position) private view returns (JobId) {
        uint256 shifted =
            queue.packed[position / IDS_PER_SLOT] >> (position % IDS_PER_SLOT * ID_BITS);
        return JobId.wrap(bytes32(uint256(uint64(shifted))));
    }

    function _size(Queue storage queue) private view returns (uint256) {
        return queue.end - queue.begin;
    }
}
