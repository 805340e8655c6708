// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobDefinition, JobStatus, ProviderPrices} from "../../src/Types.sol";

/// @notice The arithmetic and the transition table of DeepSquare 1.2. Prices are in wei per whole
/// minute.
library Tools1 {
    error InvalidTransition(JobStatus from, JobStatus to);
    error JobHotStatusOnly(JobStatus current);
    error SameStatusError();

    /// @dev The legal transitions. Each constant belongs to one hot state: a state of a job that
    /// has not ended. The constant is the bit set of the states that may follow. No state follows a
    /// cold state: the job has ended.
    uint256 private constant AFTER_PENDING = 1 << 1 | 1 << 4 | 1 << 8;
    uint256 private constant AFTER_META_SCHEDULED = 1 << 0 | 1 << 2 | 1 << 4 | 1 << 8;
    uint256 private constant AFTER_SCHEDULED = 1 << 0 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 8;
    uint256 private constant AFTER_RUNNING = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;

    function checkNewJobStatus(JobStatus current, JobStatus next) internal pure {
        if (current == next) revert SameStatusError();
        if (isCold(current)) revert JobHotStatusOnly(current);
        uint256[4] memory table =
            [AFTER_PENDING, AFTER_META_SCHEDULED, AFTER_SCHEDULED, AFTER_RUNNING];
        if (table[uint8(current)] & (1 << uint8(next)) == 0) {
            revert InvalidTransition(current, next);
        }
    }

    function isCold(JobStatus status) internal pure returns (bool) {
        return uint8(status) > uint8(JobStatus.RUNNING);
    }

    /// @dev There is no upper bound: a job may request 2^63 of each resource.
    function isValid(JobDefinition memory job) internal pure returns (bool) {
        return job.memPerCpu > 0 && job.cpusPerTask > 0 && job.ntasks > 0;
    }

    function perMinute(JobDefinition memory job, ProviderPrices memory prices)
        internal
        pure
        returns (uint256)
    {
        uint256 cpu = prices.cpuPricePerMin + job.memPerCpu * prices.memPricePerMin;
        return uint256(job.ntasks) * job.cpusPerTask * cpu + job.gpus * prices.gpuPricePerMin;
    }

    /// @dev The minutes that an amount pays for. For a tiny price the result is wrong, because it
    /// is truncated to 64 bits. A price of zero causes a panic (division by zero).
    function toDuration(JobDefinition memory job, ProviderPrices memory prices, uint256 amount)
        internal
        pure
        returns (uint64)
    {
        return uint64(amount / perMinute(job, prices));
    }
}
