// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {Job, JobId, JobStatus, ProviderPrices, Start} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of a request to cancel a claimed job whose start the chain has not recorded. The
/// job may already run, but only its provider knows.
contract CancelRequestsTest is Grid {
    // What a request changes.

    function test_a_request_keeps_the_state_and_the_escrow_of_a_claimed_job() public {
        JobId jobId = _requestToCancel();

        Job memory job = jobOf(jobId);
        assertStatus(jobId, JobStatus.SCHEDULED);
        assertTrue(job.hasCancelRequest, "request");
        assertEq(job.time.cancelRequestTimestamp, block.timestamp, "time of the request");
        assertEq(credit.balanceOf(ALICE), FUNDS - ESCROW, "no refund yet");
        assertConserved();
    }

    function test_a_second_request_changes_nothing() public {
        JobId jobId = _requestToCancel();
        uint256 requestTime = block.timestamp;
        passTime(60);

        vm.prank(ALICE);
        meta.cancelJob(jobId);

        assertEq(jobOf(jobId).time.cancelRequestTimestamp, requestTime, "time of the request");
        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "entries");
    }

    function test_only_a_request_before_the_recorded_start_limits_the_bill() public {
        JobId unstarted = _requestToCancel();
        JobId running = runningJob(ESCROW);
        vm.prank(ALICE);
        meta.cancelJob(running);
        JobId untouched = runningJob(ESCROW);

        JobId[] memory jobIds = new JobId[](3);
        (jobIds[0], jobIds[1], jobIds[2]) = (unstarted, running, untouched);
        uint256[] memory limits = jobs.billUntilMany(jobIds);
        assertEq(limits[0], block.timestamp, "requested before the start");
        assertEq(limits[1], type(uint256).max, "requested after the start");
        assertEq(limits[2], type(uint256).max, "not requested");
        assertEq(jobs.billUntil(unstarted), limits[0], "view of one job");
    }

    // The provider starts and settles the job.

    function test_a_provider_that_was_away_is_paid_until_the_request() public {
        JobId jobId = claimedJob(ESCROW);
        uint64 startTime = uint64(block.timestamp);
        passTime(3000); // The job runs, but its provider cannot report the start.
        vm.prank(ALICE);
        meta.cancelJob(jobId);
        passTime(600);

        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, startTime);
        settle(jobId, JobStatus.CANCELLED, 3000);

        assertStatus(jobId, JobStatus.CANCELLED);
        assertEq(jobOf(jobId).cost.finalCost, 50 * PRICE, "cost of 3000 seconds");
        assertConserved();
    }

    function test_the_seconds_after_a_request_are_not_billed() public {
        JobId jobId = claimedJob(ESCROW);
        uint64 startTime = uint64(block.timestamp);
        passTime(60);
        vm.prank(ALICE);
        meta.cancelJob(jobId);
        passTime(3600);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, startTime);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.BilledTooMuchEvent(jobId, PROVIDER, 61);
        settle(jobId, JobStatus.FINISHED, 3660);

        assertEq(jobOf(jobId).cost.finalCost, PRICE, "cost of one minute");
        assertConserved();
    }

    function test_a_start_after_the_request_costs_nothing() public {
        JobId jobId = _requestToCancel();
        passTime(60);
        uint64 startTime = uint64(block.timestamp);
        passTime(60);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, startTime);
        settle(jobId, JobStatus.FINISHED, 60);

        assertEq(jobOf(jobId).cost.finalCost, 0, "cost");
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        assertConserved();
    }

    function test_a_request_after_the_recorded_start_does_not_limit_the_bill() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);
        vm.prank(ALICE);
        meta.cancelJob(jobId);
        passTime(60);

        settle(jobId, JobStatus.CANCELLED, 120);

        assertEq(jobOf(jobId).cost.finalCost, 2 * PRICE, "cost of two minutes");
    }

    // The provider refuses the job.

    function test_a_refused_request_cancels_the_job_with_a_full_refund() public {
        JobId jobId = _requestToCancel();

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobRefunded(jobId, ALICE, PROVIDER, JobStatus.CANCELLED, ESCROW);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);

        _assertCancelled(jobId);
        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "notified once");
    }

    function test_a_request_that_is_timed_out_cancels_the_job_with_a_full_refund() public {
        JobId jobId = _requestToCancel();

        vm.prank(MATCHER);
        meta.timeoutJob(jobId);

        _assertCancelled(jobId);
    }

    function test_a_provider_settles_a_request_without_a_start_and_without_a_bill() public {
        JobId jobId = _requestToCancel();
        passTime(60);

        settle(jobId, JobStatus.CANCELLED, 60);

        _assertCancelled(jobId);
    }

    // Any account expires the job.

    function test_a_request_expires_the_grace_after_it_with_a_full_refund() public {
        constants.setStartTimeout(90 days);
        JobId jobId = _requestToCancel();
        uint256 expiry = block.timestamp + 7 days; // settleGrace
        vm.warp(expiry);
        _expectNotExpired(jobId, expiry);
        passTime(1);

        vm.prank(OUTSIDER);
        meta.expireJob(jobId);

        _assertCancelled(jobId);
        assertEq(jobOf(jobId).lastError, "expired", "error");
    }

    function test_a_request_does_not_extend_the_start_timeout() public {
        JobId jobId = claimedJob(ESCROW);
        passTime(3 days);
        vm.prank(ALICE);
        meta.cancelJob(jobId);

        uint256 expiry = START_TIME + 7 days; // startTimeout
        vm.warp(expiry);
        _expectNotExpired(jobId, expiry);
        passTime(1);
        meta.expireJob(jobId);

        _assertCancelled(jobId);
    }

    function test_a_reported_start_does_not_extend_the_expiry_of_a_request() public {
        constants.setStartTimeout(90 days);
        JobId jobId = _requestToCancel();
        vm.warp(block.timestamp + 7 days + 1); // settleGrace
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(START_TIME));

        vm.prank(OUTSIDER);
        meta.expireJob(jobId);

        assertStatus(jobId, JobStatus.PANICKED);
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
    }

    // The matching service still has its power over each hot job.

    function test_a_panic_of_a_requested_job_refunds_in_full_and_notifies_once() public {
        JobId jobId = _requestToCancel();

        vm.prank(MATCHER);
        meta.panicJob(jobId, "cluster on fire");

        assertStatus(jobId, JobStatus.PANICKED);
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "entries");
    }

    /// @dev A claimed job whose customer requests to cancel it in the block of the claim.
    function _requestToCancel() private returns (JobId jobId) {
        jobId = claimedJob(ESCROW);
        vm.prank(ALICE);
        meta.cancelJob(jobId);
    }

    function _assertCancelled(JobId jobId) private view {
        assertStatus(jobId, JobStatus.CANCELLED);
        assertEq(jobOf(jobId).cost.finalCost, 0, "cost");
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        assertConserved();
    }

    function _expectNotExpired(JobId jobId, uint256 expiry) private {
        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.NotExpired.selector, JobStatus.SCHEDULED, expiry)
        );
        meta.expireJob(jobId);
    }
}
