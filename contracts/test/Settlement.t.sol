// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {Job, JobId, JobStatus, ProviderPrices, Settlement} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of settlements: the bill, the division of the escrow, and the events. The status
/// of a job is hot until the job has ended. The names of the tests call the function
/// providerSetJobStatus "the published call", because DeepSquare 1.2 published it. The function
/// starts or settles a job.
contract SettlementTest is Grid {
    function test_a_job_that_does_not_exist_cannot_be_settled() public {
        expectError(bytes4(keccak256("InvalidJob()")));
        settle(JobId.wrap(bytes32(uint256(7))), JobStatus.FINISHED, 60);
    }

    function test_only_the_jobs_provider_settles_it() public {
        JobId jobId = runningJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.JobProviderOnly.selector, OTHER_PROVIDER, PROVIDER
            )
        );
        vm.prank(OTHER_PROVIDER);
        meta.settleJob(jobId, uint8(JobStatus.FINISHED), 60, 0, "", bytes32(0));
    }

    function test_an_unknown_status_is_refused_with_revert_data() public {
        JobId jobId = runningJob(ESCROW);

        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x21));
        vm.prank(PROVIDER);
        meta.settleJob(jobId, 9, 60, 0, "", bytes32(0));
    }

    function test_a_hot_status_cannot_be_settled() public {
        JobId jobId = runningJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.RunningColdStatusOnly.selector, JobStatus.PENDING)
        );
        settle(jobId, JobStatus.PENDING, 60);
    }

    function test_a_job_is_settled_once() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);
        settle(jobId, JobStatus.FINISHED, 60);

        vm.expectRevert(
            abi.encodeWithSelector(Lifecycle.JobHotStatusOnly.selector, JobStatus.FINISHED)
        );
        settle(jobId, JobStatus.FAILED, 60);
    }

    function test_a_job_that_never_ran_cannot_finish() public {
        JobId jobId = claimedJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                Lifecycle.InvalidTransition.selector, JobStatus.SCHEDULED, JobStatus.FINISHED
            )
        );
        settle(jobId, JobStatus.FINISHED, 60);
    }

    function test_a_job_that_never_ran_is_refunded_in_full() public {
        JobId jobId = claimedJob(ESCROW);
        passTime(600);

        settle(jobId, JobStatus.FAILED, 600);

        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        assertEq(credit.balanceOf(PROVIDER), 0, "provider");
        assertEq(meta.accruedFees(), 0, "fee");
        assertStatus(jobId, JobStatus.FAILED);
    }

    function test_a_running_job_is_billed_by_the_second() public {
        JobId jobId = runningJob(ESCROW);
        passTime(100);

        // 90 seconds cost 1.5 * PRICE. The fee is 20 % of the cost.
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobSettled(
            jobId, PROVIDER, JobStatus.FINISHED, 21_372e15, 42_744e14, 90, "e"
        );
        vm.prank(PROVIDER);
        meta.settleJob(jobId, uint8(JobStatus.FINISHED), 90, 0, "", "e");
    }

    function test_a_settlement_event_has_the_hash_of_its_evidence() public {
        JobId first = runningJob(ESCROW);
        JobId second = runningJob(ESCROW);
        Settlement[] memory settlements = new Settlement[](2);
        settlements[0] =
            Settlement(first, uint8(JobStatus.FINISHED), 0, 0, "", keccak256("first record"));
        settlements[1] =
            Settlement(second, uint8(JobStatus.PANICKED), 0, 0, "", keccak256("second record"));

        for (uint256 i = 0; i < 2; ++i) {
            vm.expectEmit(true, true, true, true, address(meta));
            emit IMetaScheduler.JobSettled(
                settlements[i].jobId,
                PROVIDER,
                JobStatus(settlements[i].status),
                0,
                0,
                0,
                settlements[i].evidence
            );
        }
        vm.prank(PROVIDER);
        meta.settleMany(settlements);
    }

    function test_the_escrow_is_divided_between_customer_provider_and_fee() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);

        settle(jobId, JobStatus.FINISHED, 60);

        // The provider gets 80 % of PRICE, and the fee is 20 %.
        assertEq(jobOf(jobId).cost.finalCost, PRICE, "cost");
        assertEq(credit.balanceOf(PROVIDER), 113_984e14, "provider");
        assertEq(meta.accruedFees(), 28_496e14, "fee");
        assertEq(credit.balanceOf(ALICE), FUNDS - PRICE, "customer");
        assertConserved();
    }

    function test_a_bill_above_the_elapsed_time_is_capped_with_an_event() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.BilledTooMuchEvent(jobId, PROVIDER, 2);
        settle(jobId, JobStatus.FINISHED, 61);

        assertEq(jobOf(jobId).cost.finalCost, PRICE, "one minute");
    }

    function test_a_bill_never_exceeds_the_escrow() public {
        JobId jobId = runningJob(100e18); // Pays for 422 seconds, rounded up.
        passTime(540);

        settle(jobId, JobStatus.OUT_OF_CREDITS, 540);

        assertEq(jobOf(jobId).cost.finalCost, 100e18, "cost");
        // The provider gets 80 % of the cost.
        assertEq(credit.balanceOf(PROVIDER), 80e18, "provider");
        assertEq(credit.balanceOf(ALICE), FUNDS - 100e18, "customer");
        assertConserved();
    }

    function test_a_job_of_zero_seconds_costs_nothing() public {
        JobId jobId = runningJob(ESCROW);
        passTime(600);

        settle(jobId, JobStatus.FINISHED, 0);

        assertEq(jobOf(jobId).cost.finalCost, 0, "no one-minute minimum");
        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
    }

    function test_a_panic_of_the_provider_costs_nothing() public {
        JobId jobId = runningJob(ESCROW);
        passTime(600);

        settle(jobId, JobStatus.PANICKED, 600);

        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        assertEq(credit.balanceOf(PROVIDER), 0, "provider");
    }

    function test_the_price_is_fixed_at_the_match() public {
        JobId jobId = matchedJob(ESCROW);
        vm.startPrank(PROVIDER);
        providers.setPrices(
            ProviderPrices({gpuPricePerMin: 1, cpuPricePerMin: 1, memPricePerMin: 1})
        );
        meta.claimNextJob();
        meta.setJobRunning(jobId, uint64(block.timestamp));
        vm.stopPrank();
        passTime(60);

        settle(jobId, JobStatus.FINISHED, 60);

        assertEq(jobs.pricePerMinute(jobId), PRICE, "price");
        assertEq(jobOf(jobId).cost.finalCost, PRICE, "cost");
    }

    function test_a_price_of_zero_works_from_match_to_settlement() public {
        vm.prank(PROVIDER);
        providers.setPrices(ProviderPrices(0, 0, 0));
        JobId jobId = runningJob(ESCROW);
        passTime(3600);

        settle(jobId, JobStatus.FINISHED, 3600);

        assertEq(credit.balanceOf(ALICE), FUNDS, "customer");
        assertStatus(jobId, JobStatus.FINISHED);
    }

    function test_a_banned_provider_only_gives_back_a_job_that_it_has_not_claimed() public {
        JobId jobId = matchedJob(ESCROW);
        providers.ban(PROVIDER);

        expectError(IMetaScheduler.ProviderNotJoined.selector);
        settle(jobId, JobStatus.CANCELLED, 0);
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.PANICKED), 0, "", 0);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);

        assertStatus(jobId, JobStatus.PENDING);
    }

    function test_credits_sent_to_the_contract_stay_there() public {
        JobId jobId = runningJob(ESCROW);
        vm.prank(BOB);
        credit.transfer(address(meta), 7);
        passTime(60);
        settle(jobId, JobStatus.FINISHED, 60);
        uint256 fees = meta.accruedFees();

        meta.withdrawAdmin(fees);
        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.InsufficientFunds.selector, 0, 1));
        meta.withdrawAdmin(1);

        assertEq(credit.balanceOf(address(meta)), 7, "surplus");
    }

    function test_a_removed_provider_is_paid_for_its_running_job() public {
        JobId jobId = runningJob(ESCROW);
        providers.remove(PROVIDER);
        passTime(60);

        settle(jobId, JobStatus.FINISHED, 60);

        // The provider gets 80 % of PRICE.
        assertEq(credit.balanceOf(PROVIDER), 113_984e14, "provider");
    }

    function test_a_banned_provider_is_paid_for_its_running_job() public {
        JobId jobId = runningJob(ESCROW);
        providers.ban(PROVIDER);
        passTime(60);

        settle(jobId, JobStatus.FINISHED, 60);

        // The provider gets 80 % of PRICE.
        assertEq(credit.balanceOf(PROVIDER), 113_984e14, "provider");
    }

    function test_the_record_has_error_exit_code_and_end_time() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);

        vm.prank(PROVIDER);
        meta.settleJob(jobId, uint8(JobStatus.FAILED), 60, -3, "it broke", bytes32(0));

        Job memory job = jobOf(jobId);
        assertEq(job.lastError, "it broke", "error");
        assertTrue(job.exitCode == -3, "exit code");
        assertEq(job.time.end, block.timestamp, "end");
    }

    function test_the_published_call_bills_whole_minutes() public {
        JobId jobId = claimedJob(ESCROW);
        vm.startPrank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.RUNNING), 0, "", 0);
        passTime(600);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.FINISHED), 9, "", 0);

        assertEq(jobOf(jobId).cost.finalCost, 9 * PRICE, "cost");
        assertEq(jobOf(jobId).time.start, START_TIME, "start");
    }

    function test_the_published_call_stores_the_report_of_a_start() public {
        JobId jobId = claimedJob(ESCROW);
        vm.startPrank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.RUNNING), 0, "x", 0);
        assertEq(jobOf(jobId).lastError, "x", "error");
        assertTrue(jobOf(jobId).exitCode == 0, "no exit code");
        meta.providerSetJobStatus(jobId, uint8(JobStatus.FINISHED), 0, "", 7);

        assertEq(jobOf(jobId).lastError, "x", "the error of the start is kept");
        assertTrue(jobOf(jobId).exitCode == 7, "the exit code of the end");
    }

    function test_the_final_exit_code_replaces_the_one_of_the_start() public {
        JobId jobId = claimedJob(ESCROW);
        vm.startPrank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.RUNNING), 0, "", 1);
        assertTrue(jobOf(jobId).exitCode == 1, "exit code of the start");
        assertEq(jobOf(jobId).lastError, "", "no error");
        meta.providerSetJobStatus(jobId, uint8(JobStatus.FINISHED), 0, "", 0);

        assertTrue(jobOf(jobId).exitCode == 0, "exit code of the end");
    }

    function test_the_published_call_bills_at_most_the_elapsed_time() public {
        JobId jobId = runningJob(ESCROW);
        passTime(90);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.BilledTooMuchEvent(jobId, PROVIDER, 2);
        vm.prank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.FINISHED), 2, "", 0);

        assertEq(jobOf(jobId).cost.finalCost, PRICE * 90 / 60, "ninety seconds");
    }

    function test_the_published_call_accepts_any_number_of_minutes() public {
        JobId jobId = runningJob(ESCROW);
        passTime(60);

        vm.prank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.FINISHED), type(uint64).max, "", 0);

        assertEq(jobOf(jobId).cost.finalCost, PRICE, "capped");
    }

    function test_the_published_call_refuses_other_hot_states() public {
        JobId jobId = claimedJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.RunningColdStatusOnly.selector, JobStatus.SCHEDULED
            )
        );
        vm.prank(PROVIDER);
        meta.providerSetJobStatus(jobId, uint8(JobStatus.SCHEDULED), 0, "", 0);
    }

    function testFuzz_the_three_shares_add_up_to_the_escrow(
        uint256 escrow,
        uint64 elapsed,
        uint64 reported,
        uint256 cut,
        uint256 gpuPrice
    ) public {
        escrow = bound(escrow, 100e18, FUNDS);
        cut = bound(cut, 0, 100);
        constants.setDeepsquareCut(cut);
        vm.prank(PROVIDER);
        // The escrow must pay for a minute: 6 CPUs at 7 wei and 600 MB at 3 wei cost less than 1e4.
        uint256 maxGpuPrice = escrow - 1e4 < 1e21 ? escrow - 1e4 : 1e21;
        providers.setPrices(ProviderPrices(bound(gpuPrice, 0, maxGpuPrice), 7, 3));
        JobId jobId = runningJob(escrow);
        passTime(bound(elapsed, 0, 365 days));

        settle(jobId, JobStatus.FINISHED, reported);

        uint256 paid = credit.balanceOf(PROVIDER);
        uint256 refund = credit.balanceOf(ALICE) + escrow - FUNDS;
        assertEq(paid + meta.accruedFees() + refund, escrow, "shares");
        assertEq(paid + meta.accruedFees(), jobOf(jobId).cost.finalCost, "cost");
        assertConserved();
    }
}
