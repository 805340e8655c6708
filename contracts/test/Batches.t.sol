// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {
    JobDefinition,
    JobId,
    JobStatus,
    Label,
    Match,
    ProviderPrices,
    Settlement,
    Start
} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Batches: an invalid element is skipped with an event, and the other elements succeed.
contract BatchesTest is Grid {
    JobId private constant UNKNOWN = JobId.wrap(bytes32(uint256(999)));

    function test_every_element_of_a_match_batch_needs_the_role() public {
        Match[] memory matches = new Match[](1);
        matches[0] = Match(request(ALICE, ESCROW), PROVIDER, PRICE);

        vm.prank(OUTSIDER);
        meta.metaScheduleMany(matches);

        assertStatus(matches[0].jobId, JobStatus.PENDING);
    }

    function test_an_invalid_match_is_skipped_with_an_event() public {
        Match[] memory matches = new Match[](3);
        matches[0] = Match(request(ALICE, ESCROW), PROVIDER, PRICE);
        matches[1] = Match(UNKNOWN, PROVIDER, PRICE);
        matches[2] = Match(request(BOB, ESCROW), OTHER_PROVIDER, PRICE);

        _expectSkipped(UNKNOWN, abi.encodeWithSelector(IJobRepository.InvalidJob.selector));
        vm.prank(MATCHER);
        meta.metaScheduleMany(matches);

        assertStatus(matches[0].jobId, JobStatus.META_SCHEDULED);
        assertStatus(matches[2].jobId, JobStatus.META_SCHEDULED);
    }

    function test_a_match_above_its_highest_price_is_skipped_with_an_event() public {
        Match[] memory matches = new Match[](2);
        matches[0] = Match(request(ALICE, ESCROW), PROVIDER, PRICE);
        matches[1] = Match(request(BOB, ESCROW), OTHER_PROVIDER, PRICE);
        vm.prank(PROVIDER);
        // The price of a GPU rises by 1 wei. The job has one GPU, so its price rises by 1 wei too.
        providers.setPrices(ProviderPrices(85e17 + 1, 95e16, 8e13));

        _expectSkipped(
            matches[0].jobId,
            abi.encodeWithSelector(IMetaScheduler.PriceAboveLimit.selector, PRICE + 1, PRICE)
        );
        vm.prank(MATCHER);
        meta.metaScheduleMany(matches);

        assertStatus(matches[0].jobId, JobStatus.PENDING);
        assertStatus(matches[1].jobId, JobStatus.META_SCHEDULED);
    }

    function test_a_match_whose_escrow_is_below_a_minute_is_skipped_with_an_event() public {
        Match[] memory matches = new Match[](1);
        matches[0] = Match(request(ALICE, ESCROW), PROVIDER, type(uint256).max);
        vm.prank(PROVIDER);
        providers.setPrices(ProviderPrices(ESCROW + 1, 0, 0));

        _expectSkipped(
            matches[0].jobId,
            abi.encodeWithSelector(IMetaScheduler.InsufficientFunds.selector, ESCROW, ESCROW + 1)
        );
        vm.prank(MATCHER);
        meta.metaScheduleMany(matches);

        assertStatus(matches[0].jobId, JobStatus.PENDING);
    }

    function test_a_claim_batch_on_an_empty_queue_claims_nothing() public {
        vm.prank(PROVIDER);
        assertEq(meta.claimJobs(5), 0, "claimed");
    }

    function test_only_a_joined_provider_claims_a_batch() public {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(OUTSIDER);
        meta.claimJobs(5);
    }

    function test_a_claim_batch_claims_at_most_the_requested_number() public {
        for (uint256 i = 0; i < 5; ++i) {
            matchedJob(ESCROW);
        }

        vm.startPrank(PROVIDER);
        assertEq(meta.claimJobs(3), 3, "first");
        assertEq(meta.claimJobs(3), 2, "rest");
        assertEq(queues.getClaimableJobQueueSize(PROVIDER), 0, "entries left");
    }

    function test_fifty_jobs_with_the_longest_texts_are_claimed_within_a_block() public {
        JobDefinition memory longest = definition();
        longest.batchLocationHash = string(new bytes(128));
        longest.uses = new Label[](16);
        for (uint256 i = 0; i < 16; ++i) {
            longest.uses[i] = Label(string(new bytes(64)), string(new bytes(64)));
        }
        for (uint256 i = 0; i < 50; ++i) {
            vm.prank(ALICE);
            JobId jobId = meta.requestNewJob(longest, 100e18, "job", false);
            vm.prank(MATCHER);
            meta.metaSchedule(jobId, PROVIDER);
        }
        // The first access to each storage slot costs more gas, as in a new transaction (EIP-2929).
        vm.cool(address(jobs));
        vm.cool(address(queues));

        vm.prank(PROVIDER);
        uint256 claimedCount = meta.claimJobs{gas: 22_500_000}(50); // Three quarters of a block.

        assertEq(claimedCount, 50, "claimed");
    }

    function test_one_call_removes_a_bounded_number_of_stale_entries() public {
        uint256 staleCount = 2 * queues.MAX_SKIPPED() + 1;
        for (uint256 i = 0; i < staleCount; ++i) {
            JobId cancelled = matchedJob(ESCROW);
            vm.prank(ALICE);
            meta.cancelJob(cancelled);
        }
        JobId jobId = matchedJob(ESCROW);

        vm.startPrank(PROVIDER);
        assertTrue(queues.hasNextClaimableJob(PROVIDER), "more entries to search");
        meta.claimNextJob();
        assertEq(
            queues.getClaimableJobQueueSize(PROVIDER), staleCount + 1 - 64, "64 entries removed"
        );
        meta.claimNextJob();
        meta.claimNextJob();

        assertStatus(jobId, JobStatus.SCHEDULED);
        expectError(IProviderJobQueues.NoJob.selector);
        meta.claimNextJob();
    }

    function test_stale_cancellations_and_top_ups_are_removed() public {
        uint256 staleCount = queues.MAX_SKIPPED() + 1;
        for (uint256 i = 0; i < staleCount; ++i) {
            JobId jobId = runningJob(ESCROW);
            vm.startPrank(ALICE);
            meta.topUpJob(jobId, 1e18);
            meta.cancelJob(jobId);
            vm.stopPrank();
            settle(jobId, JobStatus.FINISHED, 0);
        }

        vm.startPrank(PROVIDER);
        meta.claimNextCancellingJob();
        meta.claimNextTopUpJob();

        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 1, "cancellations");
        assertEq(queues.getTopUpJobQueueSize(PROVIDER), 1, "top-ups");
        expectError(IProviderJobQueues.NoJob.selector);
        meta.claimNextCancellingJob();
        expectError(IProviderJobQueues.NoJob.selector);
        meta.claimNextTopUpJob();
    }

    function test_an_invalid_start_is_skipped_with_an_event() public {
        JobId first = claimedJob(ESCROW);
        JobId second = claimedJob(ESCROW);
        Start[] memory starts = new Start[](3);
        starts[0] = Start(first, uint64(START_TIME));
        starts[1] = Start(first, uint64(START_TIME));
        starts[2] = Start(second, uint64(START_TIME));

        _expectSkipped(first, abi.encodeWithSelector(Lifecycle.SameStatusError.selector));
        vm.prank(PROVIDER);
        meta.setRunningMany(starts);

        assertStatus(second, JobStatus.RUNNING);
        assertEq(providers.getJobCount(PROVIDER), 2, "counted");
    }

    function test_invalid_settlements_are_skipped_with_an_event() public {
        JobId first = runningJob(ESCROW);
        JobId unmatched = request(BOB, ESCROW);
        JobId last = runningJob(ESCROW);
        passTime(60);
        Settlement[] memory settlements = new Settlement[](4);
        settlements[0] = _finishedAfterOneMinute(first);
        settlements[1] = _finishedAfterOneMinute(unmatched);
        settlements[2] = _finishedAfterOneMinute(last);
        settlements[2].status = 77; // No status has this number.
        settlements[3] = _finishedAfterOneMinute(last);

        _expectSkipped(
            unmatched,
            abi.encodeWithSelector(IMetaScheduler.JobProviderOnly.selector, PROVIDER, address(0))
        );
        // 0x21 is Solidity's panic for an invalid enum value.
        _expectSkipped(last, abi.encodeWithSignature("Panic(uint256)", 0x21));
        vm.prank(PROVIDER);
        meta.settleMany(settlements);

        assertStatus(first, JobStatus.FINISHED);
        assertStatus(unmatched, JobStatus.PENDING);
        assertStatus(last, JobStatus.FINISHED);
        // The provider gets 80 % of PRICE for each job.
        assertEq(credit.balanceOf(PROVIDER), 2 * 113_984e14, "provider");
        assertConserved();
    }

    function test_an_invalid_refusal_is_skipped_with_an_event() public {
        JobId[] memory ids = new JobId[](2);
        ids[0] = UNKNOWN;
        ids[1] = matchedJob(ESCROW);

        _expectSkipped(UNKNOWN, abi.encodeWithSelector(IJobRepository.InvalidJob.selector));
        vm.prank(PROVIDER);
        meta.refuseMany(ids);

        assertStatus(ids[1], JobStatus.PENDING);
    }

    function test_cancellations_and_top_ups_are_claimed_in_batches() public {
        JobId first = runningJob(ESCROW);
        JobId second = runningJob(ESCROW);
        vm.startPrank(ALICE);
        meta.topUpJob(first, 1e18);
        meta.topUpJob(second, 1e18);
        meta.cancelJob(first);
        meta.cancelJob(second);
        vm.stopPrank();

        vm.startPrank(PROVIDER);
        assertEq(meta.claimTopUps(9), 2, "top-ups");
        assertEq(meta.claimCancellations(1), 1, "one cancellation");
        assertEq(meta.claimCancellations(9), 1, "the other cancellation");
        assertEq(queues.getCancellingJobQueueSize(PROVIDER), 0, "entries left");
    }

    function _finishedAfterOneMinute(JobId jobId) private pure returns (Settlement memory) {
        return Settlement({
            jobId: jobId,
            status: uint8(JobStatus.FINISHED),
            billedSeconds: 60,
            exitCode: 0,
            lastError: "",
            evidence: 0
        });
    }

    function _expectSkipped(JobId jobId, bytes memory reason) private {
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.BatchElementSkipped(jobId, reason);
    }
}
