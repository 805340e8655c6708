// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {Billing} from "../src/libraries/Billing.sol";
import {Job, JobId, JobStatus, ProviderPrices} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of the three ways in which a job ends without a settlement (cancellation, panic,
/// expiry), and of the withdrawal of the fees. "Cold" means that a job has ended.
contract EndingsTest is Grid {
    // cancelJob

    function test_only_the_customer_cancels_a_job() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.CustomerOnly.selector, BOB, ALICE));
        vm.prank(BOB);
        meta.cancelJob(jobId);
    }

    function test_a_cold_job_is_not_cancelled() public {
        JobId jobId = request(ALICE, ESCROW);
        _cancel(jobId);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobHotStatusOnly.selector, JobStatus.CANCELLED)
        );
        _cancel(jobId);
    }

    function test_a_pending_job_is_cancelled_with_a_full_refund() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobRefunded(jobId, ALICE, address(0), JobStatus.CANCELLED, ESCROW);
        _cancel(jobId);

        Job memory job = jobOf(jobId);
        assertStatus(jobId, JobStatus.CANCELLED);
        assertTrue(job.hasCancelRequest, "request");
        assertEq(job.time.cancelRequestTimestamp, block.timestamp, "time of the request");
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
    }

    function test_cancelling_a_matched_job_reaches_its_provider() public {
        JobId jobId = matchedJob(ESCROW);

        _cancel(jobId);

        assertStatus(jobId, JobStatus.CANCELLED);
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        _expectCancellation(jobId);
        assertTrue(!queues.hasNextClaimableJob(PROVIDER), "not claimable");
    }

    function test_cancelling_a_claimed_job_reaches_its_provider() public {
        JobId jobId = claimedJob(ESCROW);

        _cancel(jobId);

        assertStatus(jobId, JobStatus.SCHEDULED);
        _expectCancellation(jobId);
    }

    function test_cancelling_a_running_job_notifies_its_provider_once() public {
        JobId jobId = runningJob(ESCROW);

        _cancel(jobId);
        _cancel(jobId);

        assertStatus(jobId, JobStatus.RUNNING);
        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "entries");
        _expectCancellation(jobId);
    }

    function test_a_cancelled_running_job_is_billed_until_it_ends() public {
        JobId jobId = runningJob(ESCROW);
        passTime(120);
        _cancel(jobId);

        settle(jobId, JobStatus.CANCELLED, 120);

        assertEq(jobOf(jobId).cost.finalCost, 2 * PRICE, "cost");
        assertConserved();
    }

    function test_a_cancellation_of_a_finished_job_is_skipped() public {
        JobId jobId = runningJob(ESCROW);
        _cancel(jobId);
        settle(jobId, JobStatus.FINISHED, 0);

        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(PROVIDER);
        meta.claimNextCancellingJob();
    }

    function test_a_removed_provider_still_claims_its_cancellations() public {
        JobId jobId = runningJob(ESCROW);
        providers.remove(PROVIDER);

        _cancel(jobId);

        _expectCancellation(jobId);
    }

    function test_an_unknown_account_has_no_cancellations() public {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(OUTSIDER);
        meta.claimNextCancellingJob();
    }

    // panicJob

    function test_only_the_matching_service_panics_a_job() public {
        JobId jobId = runningJob(ESCROW);

        vm.prank(PROVIDER);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.panicJob, (jobId, "no")));

        assertTrue(!ok, "refused");
    }

    function test_a_cold_job_does_not_panic() public {
        JobId jobId = request(ALICE, ESCROW);
        _cancel(jobId);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobHotStatusOnly.selector, JobStatus.CANCELLED)
        );
        vm.prank(MATCHER);
        meta.panicJob(jobId, "too late");
    }

    function test_a_panic_refunds_in_full_and_reaches_the_provider() public {
        JobId jobId = runningJob(ESCROW);
        passTime(3600);

        vm.prank(MATCHER);
        meta.panicJob(jobId, "cluster on fire");

        Job memory job = jobOf(jobId);
        assertStatus(jobId, JobStatus.PANICKED);
        assertEq(job.lastError, "cluster on fire", "error");
        assertEq(job.time.panicTimestamp, block.timestamp, "time");
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        _expectCancellation(jobId);
    }

    // expireJob

    function test_a_pending_job_does_not_expire() public {
        JobId jobId = request(ALICE, ESCROW);
        passTime(3650 days);

        _expectNotExpired(jobId, JobStatus.PENDING, type(uint256).max);
    }

    function test_a_cold_job_does_not_expire() public {
        JobId jobId = request(ALICE, ESCROW);
        _cancel(jobId);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobHotStatusOnly.selector, JobStatus.CANCELLED)
        );
        meta.expireJob(jobId);
    }

    function test_an_unclaimed_match_expires_after_its_blocks() public {
        JobId jobId = matchedJob(ESCROW);
        // The match is in block 1000, and the claim timeout is 10 blocks.
        vm.roll(1010);
        _expectNotExpired(jobId, JobStatus.META_SCHEDULED, 1010);
        vm.roll(1011);

        vm.prank(OUTSIDER);
        meta.expireJob(jobId);

        assertStatus(jobId, JobStatus.PENDING);
        assertConserved();
    }

    function test_a_claimed_job_that_does_not_start_expires_with_a_full_refund() public {
        JobId jobId = claimedJob(ESCROW);
        passTime(7 days); // startTimeout
        _expectNotExpired(jobId, JobStatus.SCHEDULED, START_TIME + 7 days);
        passTime(1);

        vm.prank(OUTSIDER);
        meta.expireJob(jobId);

        assertStatus(jobId, JobStatus.PANICKED);
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        _expectCancellation(jobId);
    }

    function test_an_unsettled_running_job_expires_after_paid_time_and_grace() public {
        JobId jobId = runningJob(ESCROW);
        // The grace (settleGrace) is 7 days.
        uint256 expiry = START_TIME + Billing.paidSecondsUp(ESCROW, PRICE) + 7 days;
        vm.warp(expiry);
        _expectNotExpired(jobId, JobStatus.RUNNING, expiry);
        passTime(1);

        vm.prank(OUTSIDER);
        meta.expireJob(jobId);

        assertStatus(jobId, JobStatus.PANICKED);
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
    }

    function test_a_running_job_expires_the_grace_after_a_request_to_cancel() public {
        vm.prank(PROVIDER);
        providers.setPrices(ProviderPrices(0, 0, 1)); // The escrow pays for more than ten years.
        JobId jobId = runningJob(ESCROW);
        passTime(3 days);
        _cancel(jobId);
        passTime(1 days);
        _cancel(jobId); // A second cancellation request does not change the expiry.
        // The first request was made after 3 days, and settleGrace is 7 days.
        vm.warp(START_TIME + 10 days);
        _expectNotExpired(jobId, JobStatus.RUNNING, START_TIME + 10 days);
        passTime(1);

        vm.prank(OUTSIDER);
        meta.expireJob(jobId);

        assertStatus(jobId, JobStatus.PANICKED);
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
    }

    function test_a_request_to_cancel_an_overdue_job_does_not_extend_it() public {
        JobId jobId = runningJob(ESCROW);
        passTime(Billing.paidSecondsUp(ESCROW, PRICE) + 1 days);
        _cancel(jobId);

        // settleGrace is 7 days. It starts at the end of the paid time.
        _expectNotExpired(
            jobId, JobStatus.RUNNING, START_TIME + Billing.paidSecondsUp(ESCROW, PRICE) + 7 days
        );
    }

    function test_a_provider_that_returns_within_the_grace_is_paid_in_full() public {
        JobId jobId = runningJob(100e18); // Pays for 422 seconds, rounded up.
        passTime(7 days); // settleGrace, which starts after the 422 seconds.

        settle(jobId, JobStatus.OUT_OF_CREDITS, 600);

        // The bill is the whole escrow, and the provider gets 80 % of it.
        assertEq(credit.balanceOf(PROVIDER), 80e18, "provider");
    }

    // withdrawAdmin

    function test_only_the_admin_withdraws() public {
        vm.prank(OUTSIDER);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.withdrawAdmin, (0)));

        assertTrue(!ok, "refused");
    }

    function test_the_escrow_cannot_be_withdrawn() public {
        request(ALICE, ESCROW);

        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.InsufficientFunds.selector, 0, 1));
        meta.withdrawAdmin(1);
    }

    function test_exactly_the_fees_can_be_withdrawn() public {
        JobId jobId = runningJob(ESCROW);
        request(BOB, ESCROW);
        passTime(60);
        settle(jobId, JobStatus.FINISHED, 60);
        uint256 fees = meta.accruedFees();
        uint256 before = credit.balanceOf(address(this));

        meta.withdrawAdmin(fees);

        // The fee is 20 % of PRICE.
        assertEq(credit.balanceOf(address(this)) - before, 28_496e14, "fees");
        assertEq(meta.accruedFees(), 0, "no fees left");
        assertConserved();
    }

    function _cancel(JobId jobId) private {
        vm.prank(ALICE);
        meta.cancelJob(jobId);
    }

    function _expectCancellation(JobId jobId) private {
        assertTrue(queues.hasCancellingJob(PROVIDER), "the provider has a cancellation");
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimNextCancellingJobEvent(ALICE, PROVIDER, jobId);
        vm.prank(PROVIDER);
        meta.claimNextCancellingJob();
    }

    function _expectNotExpired(JobId jobId, JobStatus status, uint256 expiry) private {
        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.NotExpired.selector, status, expiry));
        meta.expireJob(jobId);
    }
}
