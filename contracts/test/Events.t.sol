// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {JobId, JobStatus} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice The cheat codes that keep events.
interface EventLog {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory);
}

/// @notice What the contracts tell, and to whom they listen, that the campaign of mutants found nobody to hold.
contract EventsTest is Grid {
    EventLog private eventLog = EventLog(address(vm));

    function test_every_move_is_told_with_both_states() public {
        JobId jobId = request(ALICE, LOCK);
        vm.expectEmit(true, true, true, true, address(jobs));
        emit IJobRepository.JobTransitionEvent(jobId, JobStatus.PENDING, JobStatus.META_SCHEDULED);

        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
    }

    function test_a_request_is_told_with_its_lock() public {
        JobId first = JobId.wrap(bytes32(uint256(1)));
        vm.expectEmit(true, true, true, true, address(jobs));
        emit IJobRepository.JobCreated(first);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.NewJobRequestEvent(first, ALICE);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobRequested(first, ALICE, LOCK);

        request(ALICE, LOCK);
    }

    function test_a_request_to_cancel_is_told_in_every_state() public {
        JobId[4] memory ids = [running(LOCK), claimed(LOCK), matched(LOCK), request(ALICE, LOCK)];
        for (uint256 i = 0; i < ids.length; ++i) {
            address provider = jobOf(ids[i]).providerAddr;
            vm.expectEmit(true, true, true, true, address(meta));
            emit IMetaScheduler.JobCancelRequested(ids[i], provider);

            vm.prank(ALICE);
            meta.cancelJob(ids[i]);
        }
    }

    function test_a_job_that_never_ran_is_told_without_cost_and_time() public {
        JobId jobId = claimed(LOCK);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobSettled(jobId, PROVIDER, JobStatus.FAILED, 0, 0, 0, bytes32(0));

        settle(jobId, JobStatus.FAILED, 600);
    }

    function test_a_bill_of_exactly_the_elapsed_time_is_not_told_as_too_much() public {
        JobId jobId = running(LOCK);
        pass(60);
        eventLog.recordLogs();

        settle(jobId, JobStatus.FINISHED, 60);

        _assertNotTold(IMetaScheduler.BilledTooMuchEvent.selector);
    }

    function test_a_refusal_is_told_with_its_provider() public {
        JobId jobId = claimed(LOCK);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobUnmatched(jobId, PROVIDER);

        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
    }

    function test_a_top_up_is_told_with_its_amount() public {
        JobId jobId = claimed(LOCK);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobToppedUp(jobId, PROVIDER, 7);

        vm.prank(ALICE);
        meta.topUpJob(jobId, 7);
    }

    function test_a_top_up_of_nothing_is_not_told() public {
        JobId jobId = claimed(LOCK);

        meta.topUpJob(jobId, 0);

        assertEq(queues.getTopUpJobQueueSize(PROVIDER), 0, "entries");
    }

    function test_a_withdrawal_of_fees_is_told() public {
        JobId jobId = running(LOCK);
        pass(600);
        settle(jobId, JobStatus.FINISHED, 600);
        uint256 fees = meta.accruedFees();
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.FeesWithdrawn(address(this), fees);

        meta.withdrawAdmin(fees);
    }

    function test_what_is_claimed_in_a_batch_is_told_one_by_one() public {
        JobId jobId = running(LOCK);
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

    function test_a_batch_tells_of_no_element_that_went_through() public {
        JobId[] memory ids = new JobId[](1);
        ids[0] = claimed(LOCK);
        eventLog.recordLogs();

        vm.prank(PROVIDER);
        meta.refuseMany(ids);

        _assertNotTold(IMetaScheduler.BatchElementSkipped.selector);
        assertStatus(ids[0], JobStatus.PENDING);
    }

    // Who may, and how much

    function test_only_the_admin_closes_the_set() public {
        vm.prank(STRANGER);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.setEnableRequestNewJob, (false)));

        assertTrue(!ok, "refused");
        assertTrue(meta.enableRequestNewJob(), "open");
    }

    function test_nobody_but_the_matching_service_takes_a_job_back() public {
        JobId jobId = claimed(LOCK);

        vm.prank(ALICE);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.timeoutJob, (jobId)));

        assertTrue(!ok, "refused");
        assertStatus(jobId, JobStatus.SCHEDULED);
    }

    function test_no_more_top_ups_are_taken_than_asked_for() public {
        (JobId first, JobId second) = (running(LOCK), running(LOCK));
        meta.topUpJob(first, 0);
        credit.approve(address(meta), 2);
        meta.topUpJob(first, 1);
        meta.topUpJob(second, 1);

        vm.startPrank(PROVIDER);
        assertEq(meta.claimTopUps(1), 1, "first");
        assertEq(meta.claimTopUps(1), 1, "second");
        assertEq(meta.claimTopUps(1), 0, "none");
    }

    function test_the_remaining_minutes_are_those_paid_less_those_run() public {
        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(definition(), LOCK, "job", true); // Pays for 70 minutes.
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
        vm.startPrank(PROVIDER);
        meta.claimNextJob();
        meta.setJobRunning(jobId, uint64(block.timestamp));
        pass(40 minutes - 1);
        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.RemainingTimeAboveLimit.selector, 31, 30));
        meta.topUpJobDelegate(jobId);
        pass(1);

        meta.topUpJobDelegate(jobId);

        assertEq(jobOf(jobId).cost.maxCost, LOCK + 30 * PRICE, "lock");
    }

    function _assertNotTold(bytes32 topic) private {
        EventLog.Log[] memory logs = eventLog.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            assertTrue(logs[i].topics[0] != topic, "not told");
        }
    }
}
