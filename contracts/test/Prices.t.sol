// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {JobId, JobStatus, ProviderPrices} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice A price and the lock that must pay it: who raises its price just before a match gets no job by it.
contract PricesTest is Grid {
    uint256 private constant SMALL_LOCK = 100e18;

    function test_a_lock_that_does_not_pay_a_minute_is_not_matched() public {
        JobId jobId = request(ALICE, SMALL_LOCK);
        _ask(SMALL_LOCK + 1);
        bytes memory refusal =
            abi.encodeWithSelector(IMetaScheduler.InsufficientFunds.selector, SMALL_LOCK, SMALL_LOCK + 1);

        vm.expectRevert(refusal);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
        vm.expectRevert(refusal);
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, type(uint256).max);

        assertStatus(jobId, JobStatus.PENDING);
    }

    function test_a_price_above_limit_and_lock_is_told_with_the_limit() public {
        JobId jobId = request(ALICE, SMALL_LOCK);
        _ask(SMALL_LOCK + 1);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.PriceAboveLimit.selector, SMALL_LOCK + 1, PRICE)
        );
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, PRICE);
    }

    function test_a_lock_that_pays_just_one_minute_is_matched() public {
        JobId jobId = request(ALICE, SMALL_LOCK);
        _ask(SMALL_LOCK);

        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        assertStatus(jobId, JobStatus.META_SCHEDULED);
        assertEq(jobs.pricePerMinute(jobId), SMALL_LOCK, "price");
    }

    /// @dev The whole price stands on the job's one GPU.
    function _ask(uint256 price) private {
        vm.prank(PROVIDER);
        providers.setPrices(ProviderPrices({gpuPricePerMin: price, cpuPricePerMin: 0, memPricePerMin: 0}));
    }
}
