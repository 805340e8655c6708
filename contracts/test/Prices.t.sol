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
        passTime(providers.PRICE_NOTICE() + 1);
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
        passTime(providers.PRICE_NOTICE() + 1);

        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        assertStatus(jobId, JobStatus.META_SCHEDULED);
        assertEq(jobs.pricePerMinute(jobId), SMALL_ESCROW, "price");
    }

    function test_a_match_without_a_limit_uses_the_price_before_a_rise() public {
        _setPriceOfJob(10e18);
        passTime(1 days);
        _setPriceOfJob(20e18);
        _setPriceOfJob(30e18); // The lowest price remains that before the first rise.

        passTime(providers.PRICE_NOTICE());
        assertEq(jobs.pricePerMinute(matchedJob(ESCROW)), 10e18, "before the end of the notice");
        passTime(1);
        assertEq(jobs.pricePerMinute(matchedJob(ESCROW)), 30e18, "after the notice");
    }

    function test_each_price_has_its_own_notice() public {
        vm.startPrank(PROVIDER);
        providers.setPrices(
            ProviderPrices({gpuPricePerMin: 5, cpuPricePerMin: 5, memPricePerMin: 5})
        );
        providers.setPrices(
            ProviderPrices({gpuPricePerMin: 9, cpuPricePerMin: 3, memPricePerMin: 7})
        );
        vm.stopPrank();

        ProviderPrices memory recent = providers.recentPrices(PROVIDER);

        assertEq(recent.gpuPricePerMin, 5, "raised");
        assertEq(recent.cpuPricePerMin, 3, "lowered");
        assertEq(recent.memPricePerMin, 5, "raised memory");
        assertEq(providers.getProviderPrices(PROVIDER).gpuPricePerMin, 9, "current");
    }

    function test_a_rise_of_any_price_starts_the_notice() public {
        for (uint256 i = 0; i < 3; ++i) {
            uint256[3] memory raised = [uint256(5), 5, 5];
            raised[i] = 6;
            _setPrices(5, 5, 5);
            passTime(1 days);
            _setPrices(raised[0], raised[1], raised[2]);

            ProviderPrices memory recent = providers.recentPrices(PROVIDER);
            assertEq(
                recent.gpuPricePerMin + recent.cpuPricePerMin + recent.memPricePerMin, 15, "lowest"
            );
        }
    }

    function test_a_match_with_a_limit_uses_the_current_price() public {
        _setPriceOfJob(10e18);
        passTime(1 days);
        _setPriceOfJob(20e18);
        JobId jobId = request(ALICE, ESCROW);

        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, 20e18);

        assertEq(jobs.pricePerMinute(jobId), 20e18, "price");
    }

    function test_a_lower_price_takes_effect_at_once() public {
        _setPriceOfJob(8e18);

        assertEq(jobs.pricePerMinute(matchedJob(ESCROW)), 8e18, "price");
    }

    function test_a_provider_that_joins_again_has_no_earlier_price() public {
        _setPriceOfJob(1e18);
        _setPriceOfJob(2e18);
        providers.remove(PROVIDER);
        join(PROVIDER, prices());

        assertEq(jobs.pricePerMinute(matchedJob(ESCROW)), PRICE, "price");
    }

    function _setPrices(uint256 gpu, uint256 cpu, uint256 memory_) private {
        vm.prank(PROVIDER);
        providers.setPrices(ProviderPrices(gpu, cpu, memory_));
    }

    /// @dev The job has one GPU, so the price of a GPU is the price of the job.
    function _setPriceOfJob(uint256 price) private {
        vm.prank(PROVIDER);
        providers.setPrices(
            ProviderPrices({gpuPricePerMin: price, cpuPricePerMin: 0, memPricePerMin: 0})
        );
    }
}
