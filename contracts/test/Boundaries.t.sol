// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {Billing} from "../src/libraries/Billing.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {Job, JobDefinition, JobId, JobStatus, JobTerms, ProviderPrices} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of exact values and limits. Mutation testing showed that the other test files do
/// not check these.
contract BoundariesTest is Grid {
    // Lifecycle and Billing

    function test_the_legal_transitions_are_those_of_the_table() public pure {
        string[9] memory table = [
            // Row `from`, column `to`, in the order of JobStatus. For example, the first row allows
            // a PENDING job to become META_SCHEDULED, CANCELLED or PANICKED.
            "010010001",
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
                assertTrue(
                    Lifecycle.isLegal(JobStatus(from), JobStatus(to)) == expected, "transition"
                );
            }
            assertTrue(Lifecycle.isCold(JobStatus(from)) == (from > 3), "cold");
        }
    }

    function test_the_paid_seconds_are_rounded_up() public pure {
        assertEq(Billing.paidSecondsUp(0, 7), 0, "no escrow");
        assertEq(Billing.paidSecondsUp(1, 7), 9, "60 / 7 seconds");
        assertEq(Billing.paidSecondsUp(7, 7), 60, "a minute");
        assertEq(Billing.paidSecondsUp(8, 7), 69, "480 / 7 seconds");
    }

    function test_an_escrow_pays_for_at_most_ten_years() public pure {
        assertEq(Billing.MAX_MINUTES, 3650 days / 1 minutes, "ten years");
        assertEq(Billing.minutesDown(type(uint128).max, 1), 5_256_000, "minutes");
        assertEq(Billing.minutesDown(5_255_999, 1), 5_255_999, "a minute less");
        assertEq(Billing.paidSecondsUp(type(uint128).max, 1), 315_360_000, "seconds");
        assertEq(Billing.paidSecondsUp(5_255_999, 1), 315_359_940, "a minute less, in seconds");
    }

    // JobRepository

    function test_every_write_of_the_repository_needs_the_role() public {
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
        _expectRefusal(IJobRepository.setReport.selector);
    }

    function test_a_record_has_its_own_id() public {
        JobId jobId = request(ALICE, ESCROW);

        assertEq(JobId.unwrap(jobOf(jobId).jobId), JobId.unwrap(jobId), "id");
    }

    function test_the_published_getter_returns_the_whole_record() public {
        JobId jobId = matchedJob(ESCROW);

        (JobId id, JobStatus status, address customer, address provider,,,, bytes32 name,,,) =
            jobs.jobs(jobId);

        assertEq(JobId.unwrap(id), JobId.unwrap(jobId), "id");
        assertEq(uint256(status), uint256(JobStatus.META_SCHEDULED), "status");
        assertEq(customer, ALICE, "customer");
        assertEq(provider, PROVIDER, "provider");
        assertEq(name, "job", "name");
    }

    function test_terms_are_returned_in_the_requested_order() public {
        JobId[] memory ids = new JobId[](2);
        (ids[1], ids[0]) = (request(ALICE, ESCROW), request(BOB, 2 * ESCROW));

        JobTerms[] memory terms = jobs.termsMany(ids);

        assertEq(terms.length, 2, "count");
        assertEq(terms[0].customer, BOB, "first");
        assertEq(terms[0].maxCost, 2 * ESCROW, "escrow of the first");
        assertEq(terms[1].customer, ALICE, "second");
    }

    function test_any_exit_code_and_the_shortest_error_are_stored() public {
        JobId jobId = runningJob(ESCROW);

        vm.prank(PROVIDER);
        meta.settleJob(jobId, uint8(JobStatus.FAILED), 0, 1, "!", bytes32(0));

        assertEq(uint64(jobOf(jobId).exitCode), 1, "exit code");
        assertEq(jobOf(jobId).lastError, "!", "error");
    }

    function test_a_job_that_is_refunded_has_no_exit_code_and_no_cost() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.prank(ALICE);
        meta.cancelJob(jobId);

        assertEq(uint64(jobOf(jobId).exitCode), 0, "exit code");
        assertEq(jobOf(jobId).cost.finalCost, 0, "cost");
    }

    function test_a_refusal_clears_the_smallest_pending_top_up() public {
        JobId jobId = claimedJob(ESCROW);
        credit.approve(address(meta), 1);
        meta.topUpJob(jobId, 1);

        vm.prank(PROVIDER);
        meta.refuseJob(jobId);

        assertEq(jobOf(jobId).cost.pendingTopUp, 0, "pending top-up");
        assertEq(jobOf(jobId).cost.maxCost, ESCROW + 1, "escrow");
    }

    function test_a_job_that_did_not_panic_has_no_panic_time() public {
        JobId jobId = runningJob(ESCROW);
        settle(jobId, JobStatus.FAILED, 0);

        assertEq(jobOf(jobId).time.end, block.timestamp, "end");
        assertEq(jobOf(jobId).time.panicTimestamp, 0, "panic");
    }

    function test_the_largest_escrow_fits_the_record() public {
        credit.mint(ALICE, type(uint128).max - FUNDS);

        JobId jobId = request(ALICE, type(uint128).max);

        assertEq(jobOf(jobId).cost.maxCost, type(uint128).max, "escrow");
    }

    function test_a_single_label_is_stored() public {
        JobDefinition memory withLabel = definition();
        withLabel.uses = labels();
        JobDefinition memory withCondition = definition();
        withCondition.affinity = labelledDefinition().affinity;

        vm.startPrank(ALICE);
        JobId first = meta.requestNewJob(withLabel, ESCROW, "job", false);
        JobId second = meta.requestNewJob(withCondition, ESCROW, "job", false);

        assertEq(jobOf(first).definition.uses[0].value, "linux", "label");
        assertEq(jobOf(first).definition.affinity.length, 0, "no condition");
        assertEq(jobOf(second).definition.affinity[0].label.value, "linux", "condition");
        assertEq(jobOf(second).definition.uses.length, 0, "no label");
    }

    function test_many_records_are_returned_in_the_requested_order() public {
        JobId[] memory ids = new JobId[](2);
        (ids[0], ids[1]) = (matchedJob(ESCROW), request(BOB, ESCROW));

        Job[] memory records = jobs.getMany(ids);

        assertEq(records[0].providerAddr, PROVIDER, "provider of the first");
        assertEq(records[1].customerAddr, BOB, "customer of the second");
    }

    function test_the_last_page_of_a_customer_has_the_remaining_jobs() public {
        (JobId first, JobId second) = (request(ALICE, ESCROW), request(ALICE, ESCROW));

        (JobId[] memory page, uint256 cursor) = jobs.getByCustomerPage(ALICE, 1, 5);

        assertEq(page.length, 1, "count");
        assertEq(JobId.unwrap(page[0]), JobId.unwrap(second), "second job");
        assertEq(cursor, 2, "cursor");
        (page,) = jobs.getByCustomerPage(ALICE, 0, 1);
        assertEq(JobId.unwrap(page[0]), JobId.unwrap(first), "first");
    }

    function test_the_memory_of_all_cpus_is_bounded() public {
        JobDefinition memory largest = definition();
        // 32 CPUs with 2^34 MB each have 2^39 MB, which is the bound.
        (largest.ntasks, largest.cpusPerTask, largest.memPerCpu) = (8, 4, uint64(1 << 34));
        vm.startPrank(ALICE);
        meta.requestNewJob(largest, ESCROW, "job", false);
        ++largest.memPerCpu;

        expectError(IMetaScheduler.InvalidJobDefinition.selector);
        meta.requestNewJob(largest, ESCROW, "job", false);
    }

    function test_the_highest_prices_are_accepted() public {
        ProviderPrices memory highest = ProviderPrices({
            gpuPricePerMin: type(uint72).max,
            cpuPricePerMin: type(uint72).max,
            memPricePerMin: type(uint56).max
        });

        vm.prank(PROVIDER);
        providers.setPrices(highest);

        assertEq(
            providers.getProvider(PROVIDER).providerPrices.gpuPricePerMin, type(uint72).max, "price"
        );
    }

    // Times

    function test_a_start_between_claim_and_now_is_stored_and_emitted() public {
        JobId jobId = claimedJob(ESCROW);
        passTime(100);
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobStarted(jobId, PROVIDER, uint64(START_TIME + 40));

        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(START_TIME + 40));

        assertEq(jobOf(jobId).time.start, START_TIME + 40, "start");
    }

    function test_the_claim_timeout_starts_at_the_block_of_each_match() public {
        // The claim timeout is 10 blocks.
        JobId jobId = request(ALICE, ESCROW);
        vm.roll(2000);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);
        vm.roll(2010);
        _expectMatchNotExpired(jobId, 2010);
        vm.roll(2011);
        meta.expireJob(jobId);

        vm.roll(3000);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, OTHER_PROVIDER);
        vm.roll(3010);

        _expectMatchNotExpired(jobId, 3010);
    }

    function test_a_claim_of_another_job_does_not_extend_a_match() public {
        // Both matches are in block 1000, and the claim timeout is 10 blocks.
        matchedJob(ESCROW);
        JobId unclaimed = matchedJob(ESCROW);
        vm.roll(1010);
        vm.prank(PROVIDER);
        meta.claimNextJob();
        vm.roll(1011);

        meta.expireJob(unclaimed);

        assertStatus(unclaimed, JobStatus.PENDING);
    }

    function test_a_job_that_has_just_ended_cannot_expire() public {
        JobId jobId = runningJob(ESCROW);
        settle(jobId, JobStatus.PANICKED, 0);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobHotStatusOnly.selector, JobStatus.PANICKED)
        );
        meta.expireJob(jobId);
        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobHotStatusOnly.selector, JobStatus.PANICKED)
        );
        vm.prank(MATCHER);
        meta.panicJob(jobId, "again");
    }

    // Payments and queues

    function test_a_payment_of_zero_makes_no_transfer() public {
        // The whole escrow is the fee, so the provider and the customer get nothing.
        constants.setDeepsquareCut(100);
        JobId jobId = runningJob(ESCROW);
        passTime(1 days); // The escrow pays for 71 minutes, rounded up.
        vm.expectCall(address(credit), abi.encodeWithSelector(credit.transfer.selector), 0);

        settle(jobId, JobStatus.FINISHED, 1 days);

        assertEq(meta.accruedFees(), ESCROW, "the whole escrow is the fee");
    }

    function test_a_cancelled_job_without_provider_enters_no_queue() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.prank(ALICE);
        meta.cancelJob(jobId);

        assertEq(queues.getCancellingJobQueueSize(address(0)), 0, "entries");
    }

    function test_a_panic_after_a_request_to_cancel_adds_no_second_entry() public {
        JobId jobId = runningJob(ESCROW);
        vm.prank(ALICE);
        meta.cancelJob(jobId);

        vm.prank(MATCHER);
        meta.panicJob(jobId, "");

        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "entries");
    }

    function _expectMatchNotExpired(JobId jobId, uint256 expiry) private {
        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.NotExpired.selector, JobStatus.META_SCHEDULED, expiry
            )
        );
        meta.expireJob(jobId);
    }

    /// @dev The arguments are zeros, because the function checks the caller before the arguments.
    function _expectRefusal(bytes4 selector) private {
        vm.prank(OUTSIDER);
        (bool ok, bytes memory reason) =
            address(jobs).call(abi.encodePacked(selector, new bytes(320)));
        assertTrue(!ok, "refused");
        assertEq(
            bytes32(bytes4(reason)), bytes32(bytes4(keccak256("Error(string)"))), "with a message"
        );
    }
}
