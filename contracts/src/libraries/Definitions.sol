// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Affinity, JobDefinition, Label, ProviderPrices} from "../Types.sol";

/// @notice Bounds of what a job may ask for and a provider may charge, and the price that follows from both.
/// @dev The bounds are generous (a million processors, half an exabyte of memory, 4,722 credits per processor and
/// minute) and are chosen so that a job's price per minute always fits 96 bits:
/// 2^20 * 2^72 + 2^39 * 2^56 + 2^20 * 2^72 < 2^96.
/// Texts are bounded because their provider reads all of them when it claims: without bounds a few huge jobs would
/// make its claims larger than a block. Ids of scripts are 22 characters today, and addresses of scripts once were.
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

    /// @notice Whether a job asks for something, and for no more and in no more words than the bounds.
    function isValid(JobDefinition calldata definition) internal pure returns (bool) {
        uint256 tasks = definition.ntasks;
        uint256 cpusPerTask = definition.cpusPerTask;
        uint256 memPerCpu = definition.memPerCpu;
        if (tasks == 0 || cpusPerTask == 0 || memPerCpu == 0) return false;
        // Each factor is below 2^64, so neither product can overflow before it is compared.
        return definition.gpus <= MAX_GPUS && tasks * cpusPerTask <= MAX_CPUS
            && tasks * cpusPerTask * memPerCpu <= MAX_MEMORY_MB && definition.storageType <= MAX_STORAGE_TYPE
            && bytes(definition.batchLocationHash).length <= MAX_HASH_BYTES
            && areBounded(definition.uses, definition.affinity);
    }

    /// @notice Whether a job's labels are few and short.
    function areBounded(Label[] calldata uses, Affinity[] calldata affinity) internal pure returns (bool) {
        if (uses.length + affinity.length > MAX_LABELS) return false;
        for (uint256 i = 0; i < uses.length; ++i) {
            if (!_isShort(uses[i])) return false;
        }
        for (uint256 i = 0; i < affinity.length; ++i) {
            if (!_isShort(affinity[i].label)) return false;
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
        return ntasks * cpusPerTask * (prices.cpuPricePerMin + memPerCpu * prices.memPricePerMin) + gpus
            * prices.gpuPricePerMin;
    }

    function _isShort(Label calldata label) private pure returns (bool) {
        return bytes(label.key).length <= MAX_LABEL_BYTES && bytes(label.value).length <= MAX_LABEL_BYTES;
    }
}
