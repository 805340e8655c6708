// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {JobId, JobStatus} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

contract TopUpsTest is Grid {
    // topUpJob

    function test_a_job_that_is_not_claimed_is_not_topped_up() public {
        JobId jobId = matched(LOCK);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RunningScheduledStatusOnly.selector, JobStatus.META_SCHEDULED
            )
        );
        _topUp(jobId, 1e18);
    }

    function test_a_top_up_of_nothing_changes_nothing() public {
        JobId jobId = claimed(LOCK);

        _topUp(jobId, 0);

        assertTrue(!queues.hasTopUpJob(PROVIDER), "queue");
    }

    function test_a_top_up_adds_to_the_lock_and_reaches_the_provider() public {
        JobId jobId = claimed(LOCK);

        _topUp(jobId, 50e18);

        assertEq(jobOf(jobId).cost.maxCost, LOCK + 50e18, "lock");
        assertEq(jobOf(jobId).cost.pendingTopUp, 50e18, "pending");
        assertTrue(queues.hasTopUpJob(PROVIDER), "queue");
        assertConserved();
    }

    function test_anyone_may_pay_for_a_job_and_the_rest_goes_to_its_customer() public {
        JobId jobId = running(100e18);
        vm.prank(BOB);
        meta.topUpJob(jobId, 50e18);

        settle(jobId, JobStatus.FINISHED, 0);

        assertEq(credit.balanceOf(ALICE), FUNDS + 50e18, "customer");
        assertEq(credit.balanceOf(BOB), FUNDS - 50e18, "payer");
    }

    function test_two_waiting_top_ups_take_one_entry() public {
        JobId jobId = running(100e18);

        _topUp(jobId, 10e18);
        _topUp(jobId, 10e18);

        assertEq(queues.getTopUpJobQueueSize(PROVIDER), 1, "entries");
    }

    // claimNextTopUpJob

    function test_a_stranger_has_no_top_ups() public {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(STRANGER);
        meta.claimNextTopUpJob();
    }

    function test_an_ended_job_is_not_prolonged() public {
        JobId jobId = running(LOCK);
        _topUp(jobId, 50e18);
        settle(jobId, JobStatus.FINISHED, 0);

        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(PROVIDER);
        meta.claimNextTopUpJob();
    }

    function test_a_refused_job_takes_its_waiting_top_up_along() public {
        JobId jobId = claimed(LOCK);
        _topUp(jobId, 50e18);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);

        assertEq(jobOf(jobId).cost.pendingTopUp, 0, "nothing pending");
        assertEq(jobOf(jobId).cost.maxCost, LOCK + 50e18, "lock");
        assertTrue(!queues.hasTopUpJob(PROVIDER), "queue");
    }

    function test_the_minutes_of_fractions_are_not_lost() public {
        JobId jobId = running(100e18); // 7 minutes and 0.264 credits

        _expectMinutes(jobId, 139e17, 0); // 0.08 short of a minute
        _expectMinutes(jobId, 84e15, 1); // exactly 8 minutes now
        _expectMinutes(jobId, PRICE - 1, 0);
        _expectMinutes(jobId, 1, 1);
    }

    function testFuzz_told_minutes_add_up_to_those_of_the_whole_lock(uint128[8] calldata amounts) public {
        JobId jobId = claimed(100e18);
        uint256 lock = 100e18;
        for (uint256 i = 0; i < amounts.length; ++i) {
            uint256 amount = bound(amounts[i], 1, 1000e18);
            _expectMinutes(jobId, amount, uint64((lock + amount) / PRICE - lock / PRICE));
            lock += amount;
        }
    }

    // topUpJobDelegate

    function test_a_stranger_tops_nothing_up_for_the_customer() public {
        JobId jobId = _delegated(100e18);

        expectError(IMetaScheduler.CustomerMetaSchedulerProviderOnly.selector);
        vm.prank(STRANGER);
        meta.topUpJobDelegate(jobId);
    }

    function test_without_authority_nobody_tops_up() public {
        JobId jobId = running(100e18);

        expectError(IMetaScheduler.NoSpendingAuthority.selector);
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function test_a_cancelled_run_is_topped_up_by_nobody_for_the_customer() public {
        JobId jobId = _delegated(100e18);
        vm.prank(ALICE);
        meta.cancelJob(jobId);
        uint256 left = credit.balanceOf(ALICE);

        address[3] memory callers = [PROVIDER, MATCHER, ALICE];
        for (uint256 i = 0; i < callers.length; ++i) {
            expectError(IMetaScheduler.NoSpendingAuthority.selector);
            vm.prank(callers[i]);
            meta.topUpJobDelegate(jobId);
        }

        assertEq(credit.balanceOf(ALICE), left, "customer");
    }

    function test_authority_is_the_customers_to_give() public {
        JobId jobId = running(100e18);

        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.CustomerOnly.selector, PROVIDER, ALICE));
        vm.prank(PROVIDER);
        meta.setDelegateSpendingAuthority(jobId, true);
    }

    function test_a_job_that_is_not_claimed_is_not_topped_up_by_others() public {
        JobId jobId = matched(100e18);
        vm.prank(ALICE);
        meta.setDelegateSpendingAuthority(jobId, true);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RunningScheduledStatusOnly.selector, JobStatus.META_SCHEDULED
            )
        );
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function test_a_job_with_time_left_is_not_topped_up_by_others() public {
        JobId jobId = _delegated(LOCK);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.RemainingTimeAboveLimit.selector, LOCK / PRICE, 30)
        );
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function test_a_slice_is_bought_from_the_customers_allowance() public {
        JobId jobId = _delegated(100e18);

        vm.prank(MATCHER);
        meta.topUpJobDelegate(jobId);

        assertEq(jobOf(jobId).cost.maxCost, 100e18 + 30 * PRICE, "lock");
        assertEq(credit.balanceOf(ALICE), FUNDS - 100e18 - 30 * PRICE, "customer");
        assertConserved();
    }

    function test_an_overdue_job_can_be_topped_up() public {
        JobId jobId = _delegated(100e18);
        pass(3 days);

        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);

        assertEq(jobOf(jobId).cost.pendingTopUp, 30 * PRICE, "pending");
    }

    function test_a_claimed_job_counts_its_time_from_its_start() public {
        JobId jobId = claimed(LOCK);
        vm.prank(ALICE);
        meta.setDelegateSpendingAuthority(jobId, true);
        pass(1 days);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.RemainingTimeAboveLimit.selector, LOCK / PRICE, 30)
        );
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function _topUp(JobId jobId, uint256 amount) private {
        vm.prank(ALICE);
        meta.topUpJob(jobId, amount);
    }

    function _delegated(uint256 lock) private returns (JobId jobId) {
        jobId = running(lock);
        vm.prank(ALICE);
        meta.setDelegateSpendingAuthority(jobId, true);
    }

    function _expectMinutes(JobId jobId, uint256 amount, uint64 told) private {
        _topUp(jobId, amount);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimNextTopUpJobEvent(jobId, PROVIDER, told);
        vm.prank(PROVIDER);
        meta.claimNextTopUpJob();
    }
}
