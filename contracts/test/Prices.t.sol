// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {JobId, JobStatus, ProviderPrices} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Prices and the escrow that must cover them: a provider that raises its price before a
/// match gets no job.
contract PricesTest is Grid {
    uint256 private constant SMALL_LOCK = 100e18;

    function test_an_escrow_below_the_price_of_a_minute_is_not_matched() public {
        JobId jobId = request(ALICE, SMALL_LOCK);
        _ask(SMALL_LOCK + 1);
        bytes memory refusal = abi.encodeWithSelector(
            IMetaScheduler.InsufficientFunds.selector, SMALL_LOCK, SMALL_LOCK + 1
        );

        vm.expectRevert(refusal);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
        vm.expectRevert(refusal);
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, type(uint256).max);

        assertStatus(jobId, JobStatus.PENDING);
    }

    function test_a_price_above_limit_and_escrow_is_refused_with_the_limit() public {
        JobId jobId = request(ALICE, SMALL_LOCK);
        _ask(SMALL_LOCK + 1);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.PriceAboveLimit.selector, SMALL_LOCK + 1, PRICE)
        );
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, PRICE);
    }

    function test_an_escrow_for_exactly_one_minute_is_matched() public {
        JobId jobId = request(ALICE, SMALL_LOCK);
        _ask(SMALL_LOCK);

        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        assertStatus(jobId, JobStatus.META_SCHEDULED);
        assertEq(jobs.pricePerMinute(jobId), SMALL_LOCK, "price");
    }

    /// @dev The job's single GPU has the whole price.
    function _ask(uint256 price) private {
        vm.prank(PROVIDER);
        providers.setPrices(
            ProviderPrices({gpuPricePerMin: price, cpuPricePerMin: 0, memPricePerMin: 0})
        );
    }
}
