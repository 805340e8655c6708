// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {JobId, JobStatus} from "../src/Types.sol";
import {Log} from "./Base.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of events and of the rights of callers. Mutation testing showed that the other
/// test files do not check these.
contract EventsTest is Grid {
    function test_every_transition_event_has_both_states() public {
        JobId jobId = request(ALICE, ESCROW);
        vm.expectEmit(true, true, true, true, address(jobs));
        emit IJobRepository.JobTransitionEvent(jobId, JobStatus.PENDING, JobStatus.META_SCHEDULED);

        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
    }

    function test_a_request_event_has_the_escrow() public {
        JobId first = JobId.wrap(bytes32(uint256(1)));
        vm.expectEmit(true, true, true, true, address(jobs));
        emit IJobRepository.JobCreated(first);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.NewJobRequestEvent(first, ALICE);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobRequested(first, ALICE, ESCROW);

        request(ALICE, ESCROW);
    }

    function test_a_request_to_cancel_emits_an_event_in_every_state() public {
        JobId[4] memory ids =
            [runningJob(ESCROW), claimedJob(ESCROW), matchedJob(ESCROW), request(ALICE, ESCROW)];
        for (uint256 i = 0; i < ids.length; ++i) {
            address provider = jobOf(ids[i]).providerAddr;
            vm.expectEmit(true, true, true, true, address(meta));
            emit IMetaScheduler.JobCancelRequested(ids[i], provider);

            vm.prank(ALICE);
            meta.cancelJob(ids[i]);
        }
    }

    function test_the_refund_event_of_a_job_that_never_ran_has_no_cost_and_time() public {
        JobId jobId = claimedJob(ESCROW);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobSettled(jobId, PROVIDER, JobStatus.FAILED, 0, 0, 0, bytes32(0));

        settle(jobId, JobStatus.FAILED, 600);
    }

    function test_a_bill_of_the_elapsed_time_emits_no_billed_too_much_event() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);
        vm.recordLogs();

        settle(jobId, JobStatus.FINISHED, 60);

        _assertNotEmitted(IMetaScheduler.BilledTooMuchEvent.selector);
    }

    function test_a_refusal_event_has_the_provider() public {
        JobId jobId = claimedJob(ESCROW);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobUnmatched(jobId, PROVIDER);

        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
    }

    function test_a_top_up_event_has_the_amount() public {
        JobId jobId = claimedJob(ESCROW);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobToppedUp(jobId, PROVIDER, 7);

        vm.prank(ALICE);
        meta.topUpJob(jobId, 7);
    }

    function test_a_top_up_of_zero_emits_no_event() public {
        JobId jobId = claimedJob(ESCROW);
        vm.recordLogs();

        meta.topUpJob(jobId, 0);

        assertEq(vm.getRecordedLogs().length, 0, "events");
    }

    function test_a_withdrawal_of_fees_emits_an_event() public {
        JobId jobId = runningJob(ESCROW);
        passTime(600);
        settle(jobId, JobStatus.FINISHED, 600);
        uint256 fees = meta.accruedFees();
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.FeesWithdrawn(address(this), fees);

        meta.withdrawAdmin(fees);
    }

    function test_a_claim_batch_emits_one_event_per_job() public {
        JobId jobId = runningJob(ESCROW);
        credit.approve(address(meta), PRICE);
        meta.topUpJob(jobId, PRICE);
        vm.prank(ALICE);
        meta.cancelJob(jobId);
        vm.startPrank(PROVIDER);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimNextCancellingJobEvent(ALICE, PROVIDER, jobId);
        meta.claimCancellations(9);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimNextTopUpJobEvent(jobId, PROVIDER, 1);
        meta.claimTopUps(9);
    }

    function test_a_batch_emits_no_skip_event_for_a_valid_element() public {
        JobId[] memory ids = new JobId[](1);
        ids[0] = claimedJob(ESCROW);
        vm.recordLogs();

        vm.prank(PROVIDER);
        meta.refuseMany(ids);

        _assertNotEmitted(IMetaScheduler.BatchElementSkipped.selector);
        assertStatus(ids[0], JobStatus.PENDING);
    }

    // Rights and limits

    function test_only_the_admin_closes_the_set() public {
        vm.prank(OUTSIDER);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.setEnableRequestNewJob, (false)));

        assertTrue(!ok, "refused");
        assertTrue(meta.enableRequestNewJob(), "open");
    }

    function test_only_the_matching_service_times_a_job_out() public {
        JobId jobId = claimedJob(ESCROW);

        vm.prank(ALICE);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.timeoutJob, (jobId)));

        assertTrue(!ok, "refused");
        assertStatus(jobId, JobStatus.SCHEDULED);
    }

    function test_a_top_up_batch_claims_at_most_the_requested_number() public {
        (JobId first, JobId second) = (runningJob(ESCROW), runningJob(ESCROW));
        meta.topUpJob(first, 0);
        credit.approve(address(meta), 2);
        meta.topUpJob(first, 1);
        meta.topUpJob(second, 1);

        vm.startPrank(PROVIDER);
        assertEq(meta.claimTopUps(1), 1, "first");
        assertEq(meta.claimTopUps(1), 1, "second");
        assertEq(meta.claimTopUps(1), 0, "no top-up left");
    }

    function test_the_remaining_minutes_are_paid_minus_elapsed() public {
        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(definition(), ESCROW, "job", true); // Pays for 70 minutes.
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
        vm.startPrank(PROVIDER);
        meta.claimNextJob();
        meta.setJobRunning(jobId, uint64(block.timestamp));
        // 39 whole minutes have elapsed, so 31 of the paid minutes remain.
        passTime(40 minutes - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.RemainingTimeAboveLimit.selector, 31, 30)
        );
        meta.topUpJobDelegate(jobId);
        passTime(1);

        meta.topUpJobDelegate(jobId);

        assertEq(jobOf(jobId).cost.maxCost, ESCROW + 30 * PRICE, "escrow");
    }

    function _assertNotEmitted(bytes32 topic) private {
        Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            assertTrue(logs[i].topics[0] != topic, "the event is not emitted");
        }
    }
}
