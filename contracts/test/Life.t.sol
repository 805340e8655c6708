// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {JobId, JobStatus, JobTerms} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of the match, the claim and the start of a job. A refusal or a timeout before the
/// start makes the job PENDING again.
contract LifeTest is Grid {
    // metaSchedule

    function test_only_the_matching_service_matches() public {
        JobId jobId = request(ALICE, ESCROW);

        // The address of OUTSIDER, and the hash of METASCHEDULER_ROLE.
        expectString(
            "AccessControl: account 0x00000000000000000000000000000000000057a9 is missing role "
            "0x34fe770ac2473ec704bda003df1f7ec520ba6602bc5ebb22f4d41610283d996e"
        );
        vm.prank(OUTSIDER);
        meta.metaSchedule(jobId, PROVIDER);
    }

    function test_a_provider_that_is_not_joined_is_not_matched() public {
        JobId jobId = request(ALICE, ESCROW);

        _expectMatchRefused(jobId, OUTSIDER);
        providers.ban(PROVIDER);
        _expectMatchRefused(jobId, PROVIDER);
        vm.prank(OTHER_PROVIDER);
        providers.setDraining(true);
        _expectMatchRefused(jobId, OTHER_PROVIDER);
    }

    function test_a_matched_job_is_not_matched_again() public {
        JobId jobId = matchedJob(ESCROW);

        expectError(Lifecycle.SameStatusError.selector);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, OTHER_PROVIDER);
    }

    function test_a_match_above_its_highest_price_is_refused() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.PriceAboveLimit.selector, PRICE, PRICE - 1)
        );
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, PRICE - 1);
    }

    function test_a_match_at_its_highest_price_succeeds() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, PROVIDER, PRICE);

        assertEq(jobs.pricePerMinute(jobId), PRICE, "price");
    }

    function test_only_the_matching_service_matches_with_a_highest_price() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.prank(PROVIDER);
        (bool ok,) =
            address(meta).call(abi.encodeCall(meta.metaScheduleAtMost, (jobId, PROVIDER, PRICE)));

        assertTrue(!ok, "refused");
    }

    function test_a_match_fixes_provider_and_price() public {
        JobId jobId = request(ALICE, ESCROW);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobMatched(jobId, PROVIDER, PRICE);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        JobTerms memory terms = jobs.terms(jobId);
        assertStatus(jobId, JobStatus.META_SCHEDULED);
        assertEq(terms.provider, PROVIDER, "provider");
        assertEq(terms.pricePerMinute, PRICE, "price");
        assertTrue(queues.hasNextClaimableJob(PROVIDER), "the provider can claim the job");
    }

    // claimNextJob

    function test_an_unknown_account_claims_nothing() public {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(OUTSIDER);
        meta.claimNextJob();
    }

    function test_a_banned_provider_claims_nothing() public {
        matchedJob(ESCROW);
        providers.ban(PROVIDER);

        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(PROVIDER);
        meta.claimNextJob();
    }

    function test_an_empty_queue_has_no_job() public {
        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(PROVIDER);
        meta.claimNextJob();
    }

    function test_a_provider_does_not_claim_the_job_of_another() public {
        matchedJob(ESCROW);

        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(OTHER_PROVIDER);
        meta.claimNextJob();
    }

    function test_a_claim_event_has_customer_time_and_definition() public {
        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(labelledDefinition(), 100e18, "job", false);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        // 100 credits pay for 7 whole minutes.
        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimJobEvent(ALICE, PROVIDER, jobId, 7, labelledDefinition());
        vm.prank(PROVIDER);
        meta.claimNextJob();

        assertStatus(jobId, JobStatus.SCHEDULED);
        assertEq(jobs.terms(jobId).claimTime, block.timestamp, "claim time");
    }

    function test_a_stale_entry_never_yields_the_job_of_another_provider() public {
        JobId jobId = matchedJob(ESCROW);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, OTHER_PROVIDER);

        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(PROVIDER);
        meta.claimNextJob();
    }

    function test_jobs_are_claimed_in_the_order_of_their_matches() public {
        JobId[] memory ids = new JobId[](6);
        for (uint256 i = 0; i < 6; ++i) {
            ids[i] = matchedJob(ESCROW);
        }

        for (uint256 i = 0; i < 6; ++i) {
            vm.expectEmit(true, true, true, true, address(meta));
            emit IMetaScheduler.JobClaimed(ids[i], PROVIDER);
            vm.prank(PROVIDER);
            meta.claimNextJob();
        }
    }

    // setJobRunning

    function test_only_the_jobs_provider_starts_it() public {
        JobId jobId = claimedJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobProviderOnly.selector, ALICE, PROVIDER)
        );
        vm.prank(ALICE);
        meta.setJobRunning(jobId, uint64(START_TIME));
    }

    function test_an_unclaimed_job_cannot_be_started() public {
        JobId jobId = matchedJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                Lifecycle.InvalidTransition.selector, JobStatus.META_SCHEDULED, JobStatus.RUNNING
            )
        );
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(START_TIME));
    }

    function test_the_admin_of_providers_cannot_stop_a_start() public {
        JobId jobId = claimedJob(ESCROW);
        providers.revokeRole(providers.METASCHEDULER_CONTRACT_ROLE(), address(meta));

        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(block.timestamp));
        passTime(60);
        settle(jobId, JobStatus.FINISHED, 60);

        assertEq(jobOf(jobId).cost.finalCost, PRICE, "cost");
        assertEq(providers.getJobCount(PROVIDER), 0, "not counted");
    }

    function test_a_job_is_started_once() public {
        JobId jobId = runningJob(ESCROW);

        expectError(Lifecycle.SameStatusError.selector);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(START_TIME));
    }

    function testFuzz_a_start_lies_between_claim_and_now(uint64 reported, uint256 elapsed) public {
        JobId jobId = claimedJob(ESCROW);
        uint256 claim = block.timestamp;
        elapsed = bound(elapsed, 0, 30 days);
        passTime(elapsed);

        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, reported);

        uint256 start = jobs.terms(jobId).startTime;
        assertTrue(start >= claim && start <= claim + elapsed, "between claim and now");
        bool isPlausible = reported >= claim && reported <= claim + elapsed;
        if (isPlausible) assertEq(start, reported, "a plausible start is stored unchanged");
    }

    function test_a_provider_that_was_cut_off_is_paid_for_the_whole_run() public {
        JobId jobId = claimedJob(ESCROW);
        passTime(3600);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(block.timestamp - 1800));

        settle(jobId, JobStatus.FINISHED, 1800);

        assertEq(jobOf(jobId).cost.finalCost, 30 * PRICE, "half an hour");
    }

    function test_a_started_job_is_counted() public {
        runningJob(ESCROW);

        assertEq(providers.getJobCount(PROVIDER), 1, "count");
        assertEq(providers.jobCountByProvider(PROVIDER), 1, "count of the other getter");
    }

    // refuseJob and timeoutJob

    function test_only_the_jobs_provider_refuses_it() public {
        JobId jobId = matchedJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.JobProviderOnly.selector, OTHER_PROVIDER, PROVIDER
            )
        );
        vm.prank(OTHER_PROVIDER);
        meta.refuseJob(jobId);
    }

    function test_a_running_job_is_not_refused() public {
        JobId jobId = runningJob(ESCROW);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.MetaScheduledScheduledStatusOnly.selector, JobStatus.RUNNING
            )
        );
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
    }

    function test_a_refused_job_is_pending_without_provider_and_price() public {
        JobId jobId = claimedJob(ESCROW);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobRefusedEvent(jobId, PROVIDER, ALICE);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);

        JobTerms memory terms = jobs.terms(jobId);
        assertStatus(jobId, JobStatus.PENDING);
        assertEq(terms.provider, address(0), "provider");
        assertEq(terms.pricePerMinute, 0, "price");
        assertEq(terms.claimTime, 0, "claim time");
        assertConserved();
    }

    function test_a_job_matched_twice_with_the_same_provider_is_claimed_once() public {
        JobId jobId = matchedJob(ESCROW);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        vm.prank(PROVIDER);
        uint256 count = meta.claimJobs(10);

        assertEq(count, 1, "claimed");
        assertStatus(jobId, JobStatus.SCHEDULED);
    }

    function test_a_job_that_timed_out_does_not_time_out_again() public {
        JobId jobId = claimedJob(ESCROW);
        vm.prank(MATCHER);
        meta.timeoutJob(jobId);
        assertStatus(jobId, JobStatus.PENDING);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.MetaScheduledScheduledStatusOnly.selector, JobStatus.PENDING
            )
        );
        vm.prank(MATCHER);
        meta.timeoutJob(jobId);
    }

    function _expectMatchRefused(JobId jobId, address provider) private {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, provider);

        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(MATCHER);
        meta.metaScheduleAtMost(jobId, provider, type(uint256).max);
    }
}
