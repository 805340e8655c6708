// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {GasFloors} from "../src/libraries/GasFloors.sol";
import {Affinity, JobDefinition, JobId, JobStatus} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice The gas that the calls of customers require. The state in which a call uses the most gas
/// may follow between the estimate of the gas and the transaction.
contract GasFloorsTest is Grid {
    string private constant REFUSAL = "MetaScheduler: gas limit too low";
    /// @dev More than a call uses before the check of the gas.
    uint256 private constant CHECKS = 60_000;

    // requestNewJob

    function test_a_request_with_less_gas_than_the_floor_is_refused() public {
        vm.prank(ALICE);
        expectString(REFUSAL);
        meta.requestNewJob{gas: GasFloors.REQUEST}(definition(), ESCROW, "job", false);

        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
    }

    function test_a_request_with_long_texts_requires_more_gas() public {
        uint256 gas = _floor(definition()) + CHECKS;
        JobDefinition memory long = definition();
        long.affinity = new Affinity[](4);
        for (uint256 i = 0; i < long.affinity.length; ++i) {
            long.affinity[i] = Affinity({label: labels()[0], op: "=="});
        }

        vm.startPrank(ALICE);
        meta.requestNewJob{gas: gas}(definition(), ESCROW, "job", false);
        expectString(REFUSAL);
        meta.requestNewJob{gas: gas}(long, ESCROW, "job", false);
        meta.requestNewJob{gas: _floor(long) + CHECKS}(long, ESCROW, "job", false);
    }

    // cancelJob

    function test_a_cancellation_with_less_gas_than_the_floor_is_refused() public {
        JobId jobId = matchedJob(ESCROW);

        vm.startPrank(ALICE);
        expectString(REFUSAL);
        meta.cancelJob{gas: GasFloors.CANCEL}(jobId);
        meta.cancelJob{gas: GasFloors.CANCEL + CHECKS}(jobId);

        assertTrue(jobOf(jobId).hasCancelRequest, "request");
    }

    function test_an_error_of_the_call_comes_before_that_of_the_gas() public {
        JobId jobId = matchedJob(ESCROW);

        vm.prank(BOB);
        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.CustomerOnly.selector, BOB, ALICE));
        meta.cancelJob{gas: CHECKS}(jobId);
        vm.prank(ALICE);
        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RunningScheduledStatusOnly.selector, JobStatus.META_SCHEDULED
            )
        );
        meta.topUpJob{gas: CHECKS}(jobId, 1e18);
    }

    // topUpJob and topUpJobDelegate

    function test_a_top_up_with_less_gas_than_the_floor_is_refused() public {
        JobId jobId = claimedJob(ESCROW);

        vm.startPrank(ALICE);
        expectString(REFUSAL);
        meta.topUpJob{gas: GasFloors.TOP_UP}(jobId, 1e18);
        meta.topUpJob{gas: GasFloors.TOP_UP + CHECKS}(jobId, 1e18);

        assertEq(jobOf(jobId).cost.maxCost, ESCROW + 1e18, "escrow");
    }

    function test_a_delegated_top_up_with_less_gas_than_the_floor_is_refused() public {
        JobId jobId = runningJob(100e18);
        vm.prank(ALICE);
        meta.setDelegateSpendingAuthority(jobId, true);

        vm.startPrank(PROVIDER);
        expectString(REFUSAL);
        meta.topUpJobDelegate{gas: GasFloors.TOP_UP}(jobId);
        meta.topUpJobDelegate{gas: GasFloors.TOP_UP + CHECKS}(jobId);

        assertTrue(queues.hasTopUpJob(PROVIDER), "top-up");
    }

    function test_a_top_up_of_zero_requires_no_gas_for_its_effects() public {
        JobId jobId = claimedJob(ESCROW);

        meta.topUpJob{gas: CHECKS}(jobId, 0);

        assertEq(jobOf(jobId).cost.maxCost, ESCROW, "escrow");
    }

    function _floor(JobDefinition memory definition_) private view returns (uint256) {
        bytes memory data = abi.encodeCall(meta.requestNewJob, (definition_, ESCROW, "job", false));
        return GasFloors.REQUEST + GasFloors.REQUEST_PER_BYTE * data.length;
    }
}
