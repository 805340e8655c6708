// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {JobId, JobStatus, ProviderPrices} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of the price at the match. A job is not matched to a provider if its escrow is
/// below the price of one minute.
contract PricesTest is Grid {
    uint256 private constant SMALL_ESCROW = 100e18;

    function test_an_escrow_below_the_price_of_a_minute_is_not_matched() public {
        JobId jobId = request(ALICE, SMALL_ESCROW);
        _setPriceOfJob(SMALL_ESCROW + 1);
        bytes memory expectedError = abi.encodeWithSelector(
            IMetaScheduler.InsufficientFunds.selector, SMALL_ESCROW, SMALL_ESCROW + 1
        );

        vm.expectRevert(expectedError);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
        vm.expectRevert(expectedError);
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, type(uint256).max);

        assertStatus(jobId, JobStatus.PENDING);
    }

    function test_a_price_above_limit_and_escrow_is_refused_with_the_limit() public {
        JobId jobId = request(ALICE, SMALL_ESCROW);
        _setPriceOfJob(SMALL_ESCROW + 1);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.PriceAboveLimit.selector, SMALL_ESCROW + 1, PRICE)
        );
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, PRICE);
    }

    function test_an_escrow_for_exactly_one_minute_is_matched() public {
        JobId jobId = request(ALICE, SMALL_ESCROW);
        _setPriceOfJob(SMALL_ESCROW);

        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        assertStatus(jobId, JobStatus.META_SCHEDULED);
        assertEq(jobs.pricePerMinute(jobId), SMALL_ESCROW, "price");
    }

    /// @dev The job has one GPU, so the price of a GPU is the price of the job.
    function _setPriceOfJob(uint256 price) private {
        vm.prank(PROVIDER);
        providers.setPrices(
            ProviderPrices({gpuPricePerMin: price, cpuPricePerMin: 0, memPricePerMin: 0})
        );
    }
}
