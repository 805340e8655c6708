// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {JobId, JobStatus} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Top-ups of the escrow by any account, and delegated top-ups. A delegated top-up takes
/// the customer's credits. The customer must have allowed this (setDelegateSpendingAuthority).
contract TopUpsTest is Grid {
    // topUpJob

    function test_a_job_that_is_not_claimed_is_not_topped_up() public {
        JobId jobId = matchedJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RunningScheduledStatusOnly.selector, JobStatus.META_SCHEDULED
            )
        );
        _topUp(jobId, 1e18);
    }

    function test_a_top_up_of_zero_changes_nothing() public {
        JobId jobId = claimedJob(ESCROW);

        _topUp(jobId, 0);

        assertTrue(!queues.hasTopUpJob(PROVIDER), "no top-up in the queue");
    }

    function test_a_top_up_adds_to_the_escrow_and_reaches_the_provider() public {
        JobId jobId = claimedJob(ESCROW);

        _topUp(jobId, 50e18);

        assertEq(jobOf(jobId).cost.maxCost, ESCROW + 50e18, "escrow");
        assertEq(jobOf(jobId).cost.pendingTopUp, 50e18, "pending");
        assertTrue(queues.hasTopUpJob(PROVIDER), "top-up in the queue");
        assertConserved();
    }

    function test_anyone_may_top_up_a_job_and_its_customer_is_refunded() public {
        JobId jobId = runningJob(100e18);
        vm.prank(BOB);
        meta.topUpJob(jobId, 50e18);

        settle(jobId, JobStatus.FINISHED, 0);

        assertEq(credit.balanceOf(ALICE), FUNDS + 50e18, "customer");
        assertEq(credit.balanceOf(BOB), FUNDS - 50e18, "payer");
    }

    function test_two_pending_top_ups_have_one_queue_entry() public {
        JobId jobId = runningJob(100e18);

        _topUp(jobId, 10e18);
        _topUp(jobId, 10e18);

        assertEq(queues.getTopUpJobQueueSize(PROVIDER), 1, "entries");
    }

    // claimNextTopUpJob

    function test_an_unknown_account_has_no_top_ups() public {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(OUTSIDER);
        meta.claimNextTopUpJob();
    }

    function test_an_ended_job_is_not_extended() public {
        JobId jobId = runningJob(ESCROW);
        _topUp(jobId, 50e18);
        settle(jobId, JobStatus.FINISHED, 0);

        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(PROVIDER);
        meta.claimNextTopUpJob();
    }

    function test_a_refusal_clears_the_pending_top_up() public {
        JobId jobId = claimedJob(ESCROW);
        _topUp(jobId, 50e18);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);

        assertEq(jobOf(jobId).cost.pendingTopUp, 0, "nothing pending");
        assertEq(jobOf(jobId).cost.maxCost, ESCROW + 50e18, "escrow");
        assertTrue(!queues.hasTopUpJob(PROVIDER), "no top-up in the queue");
    }

    function test_fractions_of_minutes_are_not_lost() public {
        JobId jobId = runningJob(100e18); // Pays for 7 minutes; 0.264 credits remain.

        _expectAddedMinutes(jobId, 139e17, 0); // 0.084 credits are missing for minute 8.
        _expectAddedMinutes(jobId, 84e15, 1); // The escrow now pays for exactly 8 minutes.
        _expectAddedMinutes(jobId, PRICE - 1, 0);
        _expectAddedMinutes(jobId, 1, 1);
    }

    function testFuzz_emitted_minutes_add_up_to_those_of_the_escrow(uint128[8] calldata amounts)
        public
    {
        JobId jobId = claimedJob(100e18);
        uint256 escrow = 100e18;
        for (uint256 i = 0; i < amounts.length; ++i) {
            uint256 amount = bound(amounts[i], 1, 1000e18);
            _expectAddedMinutes(jobId, amount, uint64((escrow + amount) / PRICE - escrow / PRICE));
            escrow += amount;
        }
    }

    // topUpJobDelegate

    function test_an_unknown_account_cannot_top_up_for_the_customer() public {
        JobId jobId = _runningJobWithDelegation(100e18);

        expectError(IMetaScheduler.CustomerMetaSchedulerProviderOnly.selector);
        vm.prank(OUTSIDER);
        meta.topUpJobDelegate(jobId);
    }

    function test_a_delegated_top_up_needs_authority() public {
        JobId jobId = runningJob(100e18);

        expectError(IMetaScheduler.NoSpendingAuthority.selector);
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function test_a_cancelled_job_has_no_delegated_top_up() public {
        JobId jobId = _runningJobWithDelegation(100e18);
        vm.prank(ALICE);
        meta.cancelJob(jobId);
        uint256 balanceBefore = credit.balanceOf(ALICE);

        address[3] memory callers = [PROVIDER, MATCHER, ALICE];
        for (uint256 i = 0; i < callers.length; ++i) {
            expectError(IMetaScheduler.NoSpendingAuthority.selector);
            vm.prank(callers[i]);
            meta.topUpJobDelegate(jobId);
        }

        assertEq(credit.balanceOf(ALICE), balanceBefore, "customer");
    }

    function test_only_the_customer_sets_the_authority() public {
        JobId jobId = runningJob(100e18);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.CustomerOnly.selector, PROVIDER, ALICE)
        );
        vm.prank(PROVIDER);
        meta.setDelegateSpendingAuthority(jobId, true);
    }

    function test_an_unclaimed_job_has_no_delegated_top_up() public {
        JobId jobId = matchedJob(100e18);
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

    function test_a_job_with_time_left_has_no_delegated_top_up() public {
        JobId jobId = _runningJobWithDelegation(ESCROW);

        // A delegated top-up is allowed if at most 30 minutes remain (topUpSliceDurationMin).
        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RemainingTimeAboveLimit.selector, ESCROW / PRICE, 30
            )
        );
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function test_a_delegated_top_up_uses_the_customers_allowance() public {
        JobId jobId = _runningJobWithDelegation(100e18);

        vm.prank(MATCHER);
        meta.topUpJobDelegate(jobId);

        // A delegated top-up pays for 30 minutes (topUpSliceDurationMin).
        assertEq(jobOf(jobId).cost.maxCost, 100e18 + 30 * PRICE, "escrow");
        assertEq(credit.balanceOf(ALICE), FUNDS - 100e18 - 30 * PRICE, "customer");
        assertConserved();
    }

    function test_an_overdue_job_can_be_topped_up() public {
        JobId jobId = _runningJobWithDelegation(100e18);
        passTime(3 days);

        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);

        assertEq(jobOf(jobId).cost.pendingTopUp, 30 * PRICE, "pending");
    }

    function test_the_time_of_a_claimed_job_starts_at_its_start() public {
        JobId jobId = claimedJob(ESCROW);
        vm.prank(ALICE);
        meta.setDelegateSpendingAuthority(jobId, true);
        passTime(1 days);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RemainingTimeAboveLimit.selector, ESCROW / PRICE, 30
            )
        );
        vm.prank(PROVIDER);
        meta.topUpJobDelegate(jobId);
    }

    function _topUp(JobId jobId, uint256 amount) private {
        vm.prank(ALICE);
        meta.topUpJob(jobId, amount);
    }

    function _runningJobWithDelegation(uint256 escrow) private returns (JobId jobId) {
        jobId = runningJob(escrow);
        vm.prank(ALICE);
        meta.setDelegateSpendingAuthority(jobId, true);
    }

    function _expectAddedMinutes(JobId jobId, uint256 amount, uint64 minutes_) private {
        _topUp(jobId, amount);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimNextTopUpJobEvent(jobId, PROVIDER, minutes_);
        vm.prank(PROVIDER);
        meta.claimNextTopUpJob();
    }
}
