// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Billing} from "../src/libraries/Billing.sol";
import {Definitions} from "../src/libraries/Definitions.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {Affinity, JobDefinition, JobStatus, Label, ProviderPrices} from "../src/Types.sol";
import {Base} from "./Base.sol";
import {LibraryCaller} from "./LibraryCaller.sol";

/// @notice The libraries: the table of transitions, the formulas of billing, and the bounds of a
/// job definition. A state is cold if the job has ended.
contract LibrariesTest is Base {
    LibraryCaller private caller = new LibraryCaller();

    function test_a_transition_to_the_same_state_has_its_own_error() public {
        for (uint8 state = 0; state < 9; ++state) {
            expectError(Lifecycle.SameStatusError.selector);
            caller.check(JobStatus(state), JobStatus(state));
        }
    }

    function test_a_cold_state_is_never_left() public {
        // The states 4 to 8 are cold.
        for (uint8 from = 4; from < 9; ++from) {
            for (uint8 to = 0; to < 9; ++to) {
                if (from == to) continue;
                vm.expectRevert(abi.encodeWithSelector(Lifecycle.JobHotStatusOnly.selector, from));
                caller.check(JobStatus(from), JobStatus(to));
            }
        }
    }

    function test_an_illegal_transition_is_refused_with_both_states() public {
        uint256 legalCount = 0;
        for (uint8 from = 0; from < 4; ++from) {
            for (uint8 to = 0; to < 9; ++to) {
                if (from == to) continue;
                if (caller.isLegal(JobStatus(from), JobStatus(to))) {
                    ++legalCount;
                    caller.check(JobStatus(from), JobStatus(to));
                } else {
                    vm.expectRevert(
                        abi.encodeWithSelector(Lifecycle.InvalidTransition.selector, from, to)
                    );
                    caller.check(JobStatus(from), JobStatus(to));
                }
            }
        }
        // The transitions from PENDING, META_SCHEDULED, SCHEDULED and RUNNING.
        assertEq(legalCount, 3 + 4 + 5 + 5, "legal transitions");
    }

    function test_a_price_of_zero_pays_for_the_maximum_time() public pure {
        assertEq(Billing.minutesDown(0, 0), Billing.MAX_MINUTES, "minutes");
        assertEq(Billing.paidSecondsUp(0, 0), Billing.MAX_MINUTES * 60, "seconds");
    }

    function testFuzz_cost_is_less_than_one_wei_below_the_exact_one(uint64 time, uint96 price)
        public
        pure
    {
        uint256 cost = Billing.costDown(time, price);

        assertTrue(cost * 60 <= uint256(time) * price, "not above the exact cost");
        assertTrue(uint256(time) * price - cost * 60 < 60, "less than one wei below");
    }

    function testFuzz_the_cost_never_falls_with_time(uint64 time, uint64 additional, uint96 price)
        public
        pure
    {
        uint256 later = uint256(time) + additional;

        assertTrue(
            Billing.costDown(time, price) <= Billing.costDown(later, price),
            "later cost is not lower"
        );
    }

    function testFuzz_a_fee_is_rounded_down_and_within_the_cost(uint128 cost, uint256 cut)
        public
        pure
    {
        cut = bound(cut, 0, 100);

        uint256 fee = Billing.feeDown(cost, cut);

        assertTrue(fee <= cost, "fee within cost");
        assertTrue(fee * 100 <= uint256(cost) * cut, "rounded down");
    }

    function testFuzz_the_emitted_minutes_are_paid_for(uint128 amount, uint96 price) public pure {
        uint256 minutes_ = Billing.minutesDown(amount, price);

        assertTrue(minutes_ * price <= amount, "the amount pays for the minutes");
        assertTrue(minutes_ * 60 <= Billing.paidSecondsUp(amount, price), "within the deadline");
    }

    function testFuzz_no_valid_definition_overflows_a_price(
        uint64 gpus,
        uint64 memPerCpu,
        uint64 cpusPerTask,
        uint64 ntasks
    ) public view {
        JobDefinition memory definition;
        definition.gpus = uint64(bound(gpus, 0, Definitions.MAX_GPUS));
        definition.memPerCpu = memPerCpu;
        definition.cpusPerTask = uint64(bound(cpusPerTask, 1, Definitions.MAX_CPUS));
        definition.ntasks = uint64(bound(ntasks, 1, Definitions.MAX_CPUS / definition.cpusPerTask));
        uint256 cpus = definition.ntasks * definition.cpusPerTask;
        definition.memPerCpu = uint64(bound(memPerCpu, 1, Definitions.MAX_MEMORY_MB / cpus));
        ProviderPrices memory maxPrices = ProviderPrices({
            gpuPricePerMin: Definitions.MAX_UNIT_PRICE,
            cpuPricePerMin: Definitions.MAX_UNIT_PRICE,
            memPricePerMin: Definitions.MAX_MEMORY_PRICE
        });

        uint256 price = Definitions.pricePerMinute(
            definition.gpus,
            definition.memPerCpu,
            definition.cpusPerTask,
            definition.ntasks,
            maxPrices
        );

        assertTrue(caller.isValid(definition), "valid");
        assertTrue(price <= type(uint96).max, "the price fits into 96 bits");
    }

    function test_a_definition_beyond_a_bound_is_invalid() public view {
        // A job has at most 2^20 GPUs, 2^20 CPUs and 2^39 MB. The largest storage type is 4.
        assertTrue(caller.isValid(_definition(1 << 20, 1, 1, 1, 4)), "most gpus");
        assertTrue(!caller.isValid(_definition((1 << 20) + 1, 1, 1, 1, 4)), "too many gpus");
        assertTrue(caller.isValid(_definition(0, 1, 1 << 10, 1 << 10, 4)), "most cpus");
        assertTrue(!caller.isValid(_definition(0, 1, (1 << 10) + 1, 1 << 10, 4)), "too many cpus");
        assertTrue(
            !caller.isValid(_definition(0, 1, type(uint64).max, type(uint64).max, 4)), "absurd cpus"
        );
        assertTrue(caller.isValid(_definition(0, 1 << 39, 1, 1, 4)), "most memory");
        assertTrue(!caller.isValid(_definition(0, (1 << 39) + 1, 1, 1, 4)), "too much memory");
        assertTrue(!caller.isValid(_definition(0, 1, 1, 1, 5)), "unknown storage");
        assertTrue(!caller.isValid(_definition(0, 0, 1, 1, 0)), "no memory");
        assertTrue(!caller.isValid(_definition(0, 1, 0, 1, 0)), "no cpus");
        assertTrue(!caller.isValid(_definition(0, 1, 1, 0, 0)), "no tasks");
    }

    function test_a_hash_or_a_label_beyond_its_bound_is_invalid() public view {
        assertTrue(
            caller.isValid(_definitionWithTexts(128, 16, 64, 64)), "longest texts, most labels"
        );
        assertTrue(caller.isValid(_definitionWithTexts(0, 0, 0, 0)), "no texts");
        assertTrue(!caller.isValid(_definitionWithTexts(129, 0, 0, 0)), "long hash");
        assertTrue(!caller.isValid(_definitionWithTexts(22, 17, 1, 1)), "many labels");
        assertTrue(!caller.isValid(_definitionWithTexts(22, 1, 65, 1)), "long key");
        assertTrue(!caller.isValid(_definitionWithTexts(22, 1, 1, 65)), "long value");
        assertTrue(!caller.isValid(_definitionWithTexts(22, 2, 65, 1)), "long key of a condition");
        assertTrue(!caller.isValid(_definitionWithTexts(22, 2, 1, 65)), "long value of a condition");
    }

    /// @dev A definition with a hash of `hash` bytes, and with `count` labels and conditions in
    /// all. If `count` is odd, the last label has a key of `key` bytes and a value of `value` bytes.
    /// If `count` is even, the last condition has them. All other keys and values are empty.
    function _definitionWithTexts(uint256 hash, uint256 count, uint256 key, uint256 value)
        private
        pure
        returns (JobDefinition memory result)
    {
        result = _definition(1, 1, 1, 1, 4);
        result.batchLocationHash = string(new bytes(hash));
        result.uses = new Label[](count - count / 2);
        result.affinity = new Affinity[](count / 2);
        Label memory last = Label(string(new bytes(key)), string(new bytes(value)));
        if (count == 0) return result;
        if (count % 2 == 0) result.affinity[count / 2 - 1].label = last;
        else result.uses[count / 2] = last;
    }

    function _definition(
        uint64 gpus,
        uint64 memPerCpu,
        uint64 cpusPerTask,
        uint64 ntasks,
        uint8 storageType
    ) private pure returns (JobDefinition memory result) {
        result.gpus = gpus;
        result.memPerCpu = memPerCpu;
        result.cpusPerTask = cpusPerTask;
        result.ntasks = ntasks;
        result.storageType = storageType;
    }
}
