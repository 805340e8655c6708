// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Affinity, JobDefinition, Label, ProviderPrices} from "../Types.sol";

/// @notice The bounds of job definitions and of prices, and the price of a job.
/// @dev The bounds are large: a million CPUs, half an exabyte of memory, 4,722 credits per CPU and
/// minute. With these bounds the price per minute of a job always fits into 96 bits: 2^20 * 2^72
/// (CPUs) + 2^39 * 2^56 (memory) + 2^20 * 2^72 (GPUs) < 2^96. Strings are bounded because a claim
/// emits all strings of a job. Without bounds, the claim of a few jobs might not fit into a block.
/// Field `batchLocationHash` contains the id of a script, which has 22 characters. In earlier
/// versions the field contained the address of a script.
library Definitions {
    uint256 internal constant MAX_GPUS = 1 << 20;
    uint256 internal constant MAX_CPUS = 1 << 20;
    uint256 internal constant MAX_MEMORY_MB = 1 << 39;
    uint256 internal constant MAX_STORAGE_TYPE = 4;
    uint256 internal constant MAX_HASH_BYTES = 128;
    uint256 internal constant MAX_LABELS = 16;
    uint256 internal constant MAX_LABEL_BYTES = 64;
    uint256 internal constant MAX_UNIT_PRICE = type(uint72).max;
    uint256 internal constant MAX_MEMORY_PRICE = type(uint56).max;

    /// @notice Whether the job's resources are above 0, and its resources and strings are within
    /// the bounds.
    function isValid(JobDefinition calldata definition) internal pure returns (bool) {
        uint256 tasks = definition.ntasks;
        uint256 cpusPerTask = definition.cpusPerTask;
        uint256 memPerCpu = definition.memPerCpu;
        if (tasks == 0 || cpusPerTask == 0 || memPerCpu == 0) return false;
        // Each factor is below 2^64, and a product is compared before the next multiplication.
        // Therefore no product overflows.
        return definition.gpus <= MAX_GPUS && tasks * cpusPerTask <= MAX_CPUS
            && tasks * cpusPerTask * memPerCpu <= MAX_MEMORY_MB
            && definition.storageType <= MAX_STORAGE_TYPE
            && bytes(definition.batchLocationHash).length <= MAX_HASH_BYTES
            && areBounded(definition.uses, definition.affinity);
    }

    /// @notice Whether the number and the lengths of the job's labels are within the bounds.
    function areBounded(Label[] calldata uses, Affinity[] calldata affinity)
        internal
        pure
        returns (bool)
    {
        if (uses.length + affinity.length > MAX_LABELS) return false;
        for (uint256 i = 0; i < uses.length; ++i) {
            if (!isShort(uses[i])) return false;
        }
        for (uint256 i = 0; i < affinity.length; ++i) {
            if (!isShort(affinity[i].label)) return false;
        }
        return true;
    }

    /// @notice Whether every price is within its bound.
    function isBounded(ProviderPrices calldata prices) internal pure returns (bool) {
        return prices.gpuPricePerMin <= MAX_UNIT_PRICE && prices.cpuPricePerMin <= MAX_UNIT_PRICE
            && prices.memPricePerMin <= MAX_MEMORY_PRICE;
    }

    /// @notice The price of one minute of the whole job, in wei of Credit.
    function pricePerMinute(
        uint256 gpus,
        uint256 memPerCpu,
        uint256 cpusPerTask,
        uint256 ntasks,
        ProviderPrices memory prices
    ) internal pure returns (uint256) {
        return ntasks * cpusPerTask * (prices.cpuPricePerMin + memPerCpu * prices.memPricePerMin)
            + gpus * prices.gpuPricePerMin;
    }

    /// @notice Whether the key and the value of a label are within their bound.
    function isShort(Label calldata label) internal pure returns (bool) {
        return
            bytes(label.key).length <= MAX_LABEL_BYTES
                && bytes(label.value).length <= MAX_LABEL_BYTES;
    }
}
