// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {Billing} from "../src/libraries/Billing.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {JobId, JobStatus, JobTerms} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice The cheat codes that count calls and keep events.
interface Counting {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function expectCall(address callee, bytes calldata data, uint64 count) external;
    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory);
}

/// @notice Exact values and borders that the campaign of mutants found nobody to hold.
contract ExactTest is Grid {
    Counting private counting = Counting(address(vm));

    // Lifecycle and Billing

    function test_the_legal_moves_are_these() public pure {
        string[9] memory table = [
            "010010001", // from PENDING to META_SCHEDULED, CANCELLED, PANICKED
            "101010001",
            "100110101",
            "000011111",
            "000000000",
            "000000000",
            "000000000",
            "000000000",
            "000000000"
        ];
        for (uint8 from = 0; from < 9; ++from) {
            for (uint8 to = 0; to < 9; ++to) {
                bool expected = bytes(table[from])[to] == "1";
                assertTrue(Lifecycle.isLegal(JobStatus(from), JobStatus(to)) == expected, "move");
            }
            assertTrue(Lifecycle.isCold(JobStatus(from)) == (from > 3), "cold");
        }
    }

    function test_the_paid_seconds_are_rounded_up_to_the_next() public pure {
        assertEq(Billing.paidSecondsUp(0, 7), 0, "nothing");
        assertEq(Billing.paidSecondsUp(1, 7), 9, "60 / 7 seconds");
        assertEq(Billing.paidSecondsUp(7, 7), 60, "a minute");
        assertEq(Billing.paidSecondsUp(8, 7), 69, "480 / 7 seconds");
    }

    function test_no_lock_buys_more_than_ten_years() public pure {
        assertEq(Billing.MAX_MINUTES, 3650 days / 1 minutes, "ten years");
        assertEq(Billing.minutesDown(type(uint128).max, 1), 5_256_000, "minutes");
        assertEq(Billing.minutesDown(5_255_999, 1), 5_255_999, "a minute less");
        assertEq(Billing.paidSecondsUp(type(uint128).max, 1), 315_360_000, "seconds");
        assertEq(Billing.paidSecondsUp(5_255_999, 1), 315_359_940, "a minute less, in seconds");
    }

    // JobRepository

    function test_every_write_of_the_repository_is_metaschedulers_alone() public {
        bytes4[9] memory writes = [
            IJobRepository.create.selector,
            IJobRepository.setMatched.selector,
            IJobRepository.setUnmatched.selector,
            IJobRepository.setClaimed.selector,
            IJobRepository.setRunning.selector,
            IJobRepository.setEnded.selector,
            IJobRepository.setCancelRequested.selector,
            IJobRepository.setDelegateSpendingAuthority.selector,
            IJobRepository.addTopUp.selector
        ];
        for (uint256 i = 0; i < writes.length; ++i) {
            _expectRefusal(writes[i]);
        }
        _expectRefusal(IJobRepository.takeTopUp.selector);
    }

    function test_a_record_knows_its_own_id() public {
        JobId jobId = request(ALICE, LOCK);

        assertEq(JobId.unwrap(jobOf(jobId).jobId), JobId.unwrap(jobId), "id");
    }

    function test_terms_are_read_in_the_order_of_the_question() public {
        JobId[] memory ids = new JobId[](2);
        (ids[1], ids[0]) = (request(ALICE, LOCK), request(BOB, 2 * LOCK));

        JobTerms[] memory terms = jobs.termsMany(ids);

        assertEq(terms.length, 2, "how many");
        assertEq(terms[0].customer, BOB, "first");
        assertEq(terms[0].maxCost, 2 * LOCK, "its lock");
        assertEq(terms[1].customer, ALICE, "second");
    }

    function test_any_exit_code_is_kept() public {
        JobId jobId = running(LOCK);

        vm.prank(PROVIDER);
        meta.settleJob(jobId, uint8(JobStatus.FAILED), 0, 1, "", bytes32(0));

        assertEq(uint64(jobOf(jobId).exitCode), 1, "exit code");
    }

    function test_a_job_that_did_not_panic_has_no_time_of_panic() public {
        JobId jobId = running(LOCK);
        settle(jobId, JobStatus.FAILED, 0);

        assertEq(jobOf(jobId).time.end, block.timestamp, "end");
        assertEq(jobOf(jobId).time.panicTimestamp, 0, "panic");
    }

    function test_the_greatest_lock_fits_the_record() public {
        credit.mint(ALICE, type(uint128).max - FUNDS);

        JobId jobId = request(ALICE, type(uint128).max);

        assertEq(jobOf(jobId).cost.maxCost, type(uint128).max, "lock");
    }

    // Top-ups by delegates

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

    // Events

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

    function test_a_withdrawal_of_fees_is_told() public {
        JobId jobId = running(LOCK);
        pass(600);
        settle(jobId, JobStatus.FINISHED, 600);
        uint256 fees = meta.accruedFees();
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.FeesWithdrawn(address(this), fees);

        meta.withdrawAdmin(fees);
    }

    function test_a_batch_tells_of_no_element_that_went_through() public {
        JobId[] memory ids = new JobId[](1);
        ids[0] = claimed(LOCK);
        counting.recordLogs();

        vm.prank(PROVIDER);
        meta.refuseMany(ids);

        Counting.Log[] memory logs = counting.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; ++i) {
            assertTrue(logs[i].topics[0] != IMetaScheduler.BatchElementSkipped.selector, "skipped");
        }
        assertStatus(ids[0], JobStatus.PENDING);
    }

    // Who may, and how much

    function test_only_the_admin_closes_the_set() public {
        vm.prank(STRANGER);
        (bool ok,) = address(meta).call(abi.encodeCall(meta.setEnableRequestNewJob, (false)));

        assertTrue(!ok, "refused");
        assertTrue(meta.enableRequestNewJob(), "open");
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

    // Payments and queues

    function test_a_payment_of_nothing_moves_no_credits() public {
        constants.setDeepsquareCut(100);
        JobId jobId = running(LOCK);
        pass(1 days);
        counting.expectCall(address(credit), abi.encodeWithSelector(credit.transfer.selector), 0);

        settle(jobId, JobStatus.FINISHED, 1 days);

        assertEq(meta.accruedFees(), LOCK, "all of it is the fee");
    }

    function test_a_cancelled_job_without_provider_enters_no_queue() public {
        JobId jobId = request(ALICE, LOCK);

        vm.prank(ALICE);
        meta.cancelJob(jobId);

        assertEq(queues.getCancellingJobQueueSize(address(0)), 0, "entries");
    }

    function test_a_panic_after_a_request_to_cancel_is_not_told_twice() public {
        JobId jobId = running(LOCK);
        vm.prank(ALICE);
        meta.cancelJob(jobId);

        vm.prank(MATCHER);
        meta.panicJob(jobId, "");

        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "entries");
    }

    /// @dev Arguments of zeros: who calls is judged before what they say.
    function _expectRefusal(bytes4 selector) private {
        vm.prank(STRANGER);
        (bool ok, bytes memory reason) = address(jobs).call(abi.encodePacked(selector, new bytes(320)));
        assertTrue(!ok, "refused");
        assertEq(bytes32(bytes4(reason)), bytes32(bytes4(keccak256("Error(string)"))), "by name of the role");
    }
}
