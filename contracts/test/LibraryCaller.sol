// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Billing} from "../src/libraries/Billing.sol";
import {Definitions} from "../src/libraries/Definitions.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {JobDefinition, JobStatus, ProviderPrices} from "../src/Types.sol";

/// @notice Exposes the library functions to the forge tests, and to the Python tests that compare
/// the library functions with the Python formulas.
contract LibraryCaller {
    function check(JobStatus from, JobStatus to) external pure {
        Lifecycle.check(from, to);
    }

    function isLegal(JobStatus from, JobStatus to) external pure returns (bool) {
        return Lifecycle.isLegal(from, to);
    }

    function isValid(JobDefinition calldata definition) external pure returns (bool) {
        return Definitions.isValid(definition);
    }

    function costDown(uint256 time, uint256 price) external pure returns (uint256) {
        return Billing.costDown(time, price);
    }

    function feeDown(uint256 cost, uint256 cut) external pure returns (uint256) {
        return Billing.feeDown(cost, cut);
    }

    function minutesDown(uint256 amount, uint256 price) external pure returns (uint64) {
        return Billing.minutesDown(amount, price);
    }

    function paidSecondsUp(uint256 amount, uint256 price) external pure returns (uint256) {
        return Billing.paidSecondsUp(amount, price);
    }

    function pricePerMinute(
        uint256 gpus,
        uint256 memPerCpu,
        uint256 cpusPerTask,
        uint256 ntasks,
        ProviderPrices calldata prices
    ) external pure returns (uint256) {
        return Definitions.pricePerMinute(gpus, memPerCpu, cpusPerTask, ntasks, prices);
    }
}
