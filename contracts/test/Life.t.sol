// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IJobRepository} from "../src/interfaces/IJobRepository.sol";
import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {Lifecycle} from "../src/libraries/Lifecycle.sol";
import {Job, JobDefinition, JobId, JobStatus, JobTerms} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice From the request to the start of a job, and the way back to PENDING.
contract LifeTest is Grid {
    // requestNewJob

    function test_a_closed_set_takes_no_new_job() public {
        meta.setEnableRequestNewJob(false);

        expectError(IMetaScheduler.NewJobRequestDisabled.selector);
        request(ALICE, LOCK);
    }

    function test_a_lock_below_the_minimum_is_refused_with_both_amounts() public {
        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.InsufficientFunds.selector, 100e18 - 1, 100e18));
        request(ALICE, 100e18 - 1);
    }

    function test_a_lock_that_no_record_can_hold_is_refused() public {
        expectError(IJobRepository.InvalidJob.selector);
        request(ALICE, 1 << 128);
    }

    function test_an_invalid_definition_is_refused() public {
        JobDefinition memory empty;

        expectError(IMetaScheduler.InvalidJobDefinition.selector);
        vm.prank(ALICE);
        meta.requestNewJob(empty, LOCK, "job", false);
    }

    function test_a_customer_without_allowance_is_told_by_the_token() public {
        vm.prank(ALICE);
        credit.approve(address(meta), 0);

        expectString("ERC20: insufficient allowance");
        request(ALICE, LOCK);
    }

    function test_a_customer_without_credits_is_told_by_the_token() public {
        expectString("ERC20: transfer amount exceeds balance");
        request(ALICE, FUNDS + 1);
    }

    function test_a_request_locks_the_credits_and_stores_the_job() public {
        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(labelled(), LOCK, "my job", true);

        Job memory job = jobOf(jobId);
        assertEq(uint256(JobId.unwrap(jobId)), 1, "first id");
        assertEq(job.customerAddr, ALICE, "customer");
        assertEq(job.providerAddr, address(0), "provider");
        assertEq(keccak256(abi.encode(job.definition)), keccak256(abi.encode(labelled())), "definition");
        assertEq(job.cost.maxCost, LOCK, "lock");
        assertTrue(job.cost.delegateSpendingAuthority, "delegate");
        assertEq(job.time.submit, T0, "submit");
        assertEq(job.time.blockNumberStateChange, 1000, "block");
        assertEq(job.jobName, "my job", "name");
        assertEq(credit.balanceOf(ALICE), FUNDS - LOCK, "customer's credits");
        assertConserved();
    }

    function test_a_hash_of_more_than_a_slot_is_kept_whole() public {
        JobDefinition memory wanted = definition();
        wanted.batchLocationHash = "https://example.org/a/rather/long/place/for/a/script.json";

        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(wanted, LOCK, "job", false);

        assertEq(jobOf(jobId).definition.batchLocationHash, wanted.batchLocationHash, "hash");
    }

    function test_a_permit_saves_the_approval() public {
        uint256 key = 0xCAFE;
        address customer = vm.addr(key);
        credit.transfer(customer, LOCK);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _permit(customer, LOCK, 0));

        vm.prank(customer);
        meta.requestNewJobWithPermit(definition(), LOCK, "job", false, block.timestamp, v, r, s);

        assertEq(credit.balanceOf(customer), 0, "locked");
        assertConserved();
    }

    function test_a_used_permit_is_ignored_when_the_allowance_suffices() public {
        uint256 key = 0xCAFE;
        address customer = vm.addr(key);
        credit.transfer(customer, LOCK);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, _permit(customer, LOCK, 0));
        credit.permit(customer, address(meta), LOCK, block.timestamp, v, r, s);

        vm.prank(customer);
        meta.requestNewJobWithPermit(definition(), LOCK, "job", false, block.timestamp, v, r, s);

        assertEq(credit.balanceOf(customer), 0, "locked");
    }

    function test_the_jobs_of_a_customer_are_listed_in_order_and_by_page() public {
        for (uint256 i = 0; i < 7; ++i) {
            request(i % 2 == 0 ? ALICE : BOB, LOCK);
        }

        JobId[] memory all = jobs.getByCustomer(ALICE);
        (JobId[] memory page, uint256 cursor) = jobs.getByCustomerPage(ALICE, 1, 2);
        (JobId[] memory none, uint256 behind) = jobs.getByCustomerPage(ALICE, 9, 2);

        assertEq(all.length, 4, "count");
        assertEq(jobs.jobCountByCustomer(ALICE), 4, "counted");
        assertEq(JobId.unwrap(all[3]), bytes32(uint256(7)), "newest last");
        assertEq(JobId.unwrap(jobs.jobIdByCustomer(ALICE, 1)), bytes32(uint256(3)), "second");
        assertEq(page.length, 2, "page");
        assertEq(JobId.unwrap(page[0]), bytes32(uint256(3)), "page starts at its cursor");
        assertEq(cursor, 3, "cursor");
        assertEq(none.length, 0, "nothing behind the end");
        assertEq(behind, 9, "cursor stays");
    }

    // metaSchedule

    function test_only_the_matching_service_matches() public {
        JobId jobId = request(ALICE, LOCK);

        expectString(
            "AccessControl: account 0x00000000000000000000000000000000000057a9 is missing role "
            "0x34fe770ac2473ec704bda003df1f7ec520ba6602bc5ebb22f4d41610283d996e"
        );
        vm.prank(STRANGER);
        meta.metaSchedule(jobId, PROVIDER);
    }

    function test_a_provider_that_is_not_joined_is_not_matched() public {
        JobId jobId = request(ALICE, LOCK);

        _refuseMatch(jobId, STRANGER);
        providers.ban(PROVIDER);
        _refuseMatch(jobId, PROVIDER);
        vm.prank(OTHER_PROVIDER);
        providers.setDraining(true);
        _refuseMatch(jobId, OTHER_PROVIDER);
    }

    function test_a_matched_job_is_not_matched_again() public {
        JobId jobId = matched(LOCK);

        expectError(Lifecycle.SameStatusError.selector);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, OTHER_PROVIDER);
    }

    function test_a_match_fixes_provider_and_price() public {
        JobId jobId = request(ALICE, LOCK);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.JobMatched(jobId, PROVIDER, PRICE);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        JobTerms memory terms = jobs.terms(jobId);
        assertStatus(jobId, JobStatus.META_SCHEDULED);
        assertEq(terms.provider, PROVIDER, "provider");
        assertEq(terms.pricePerMinute, PRICE, "price");
        assertTrue(queues.hasNextClaimableJob(PROVIDER), "queued");
    }

    // claimNextJob

    function test_a_stranger_claims_nothing() public {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(STRANGER);
        meta.claimNextJob();
    }

    function test_a_banned_provider_claims_nothing() public {
        matched(LOCK);
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

    function test_nobody_claims_the_job_of_another() public {
        matched(LOCK);

        expectError(IProviderJobQueues.NoJob.selector);
        vm.prank(OTHER_PROVIDER);
        meta.claimNextJob();
    }

    function test_a_claim_tells_customer_time_and_definition() public {
        vm.prank(ALICE);
        JobId jobId = meta.requestNewJob(labelled(), 100e18, "job", false);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        vm.expectEmit(true, true, true, true, address(meta));
        emit IMetaScheduler.ClaimJobEvent(ALICE, PROVIDER, jobId, 7, labelled());
        vm.prank(PROVIDER);
        meta.claimNextJob();

        assertStatus(jobId, JobStatus.SCHEDULED);
        assertEq(jobs.terms(jobId).claimTime, block.timestamp, "claim time");
    }

    function test_a_stale_entry_never_brings_the_job_of_another() public {
        JobId jobId = matched(LOCK);
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
            ids[i] = matched(LOCK);
        }

        for (uint256 i = 0; i < 6; ++i) {
            vm.expectEmit(true, true, true, true, address(meta));
            emit IMetaScheduler.JobClaimed(ids[i], PROVIDER);
            vm.prank(PROVIDER);
            meta.claimNextJob();
        }
    }

    // setJobRunning

    function test_only_the_jobs_provider_says_that_it_runs() public {
        JobId jobId = claimed(LOCK);

        vm.expectRevert(abi.encodeWithSelector(IMetaScheduler.JobProviderOnly.selector, ALICE, PROVIDER));
        vm.prank(ALICE);
        meta.setJobRunning(jobId, uint64(T0));
    }

    function test_an_unclaimed_job_does_not_run() public {
        JobId jobId = matched(LOCK);

        vm.expectRevert(
            abi.encodeWithSelector(
                Lifecycle.InvalidTransition.selector, JobStatus.META_SCHEDULED, JobStatus.RUNNING
            )
        );
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(T0));
    }

    function test_a_start_is_told_once() public {
        JobId jobId = running(LOCK);

        expectError(Lifecycle.SameStatusError.selector);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(T0));
    }

    function testFuzz_a_start_lies_between_claim_and_now(uint64 told, uint256 passed) public {
        JobId jobId = claimed(LOCK);
        uint256 claim = block.timestamp;
        passed = bound(passed, 0, 30 days);
        pass(passed);

        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, told);

        uint256 start = jobs.terms(jobId).startTime;
        assertTrue(start >= claim && start <= claim + passed, "saturated");
        if (told >= claim && told <= claim + passed) assertEq(start, told, "kept");
    }

    function test_a_provider_that_was_cut_off_is_paid_for_the_whole_run() public {
        JobId jobId = claimed(LOCK);
        pass(3600);
        vm.prank(PROVIDER);
        meta.setJobRunning(jobId, uint64(block.timestamp - 1800));

        settle(jobId, JobStatus.FINISHED, 1800);

        assertEq(jobOf(jobId).cost.finalCost, 30 * PRICE, "half an hour");
    }

    function test_a_started_job_is_counted() public {
        running(LOCK);

        assertEq(providers.getJobCount(PROVIDER), 1, "count");
        assertEq(providers.jobCountByProvider(PROVIDER), 1, "count by its other name");
    }

    // refuseJob and timeoutJob

    function test_only_the_jobs_provider_refuses_it() public {
        JobId jobId = matched(LOCK);

        vm.expectRevert(
            abi.encodeWithSelector(IMetaScheduler.JobProviderOnly.selector, OTHER_PROVIDER, PROVIDER)
        );
        vm.prank(OTHER_PROVIDER);
        meta.refuseJob(jobId);
    }

    function test_a_running_job_is_not_refused() public {
        JobId jobId = running(LOCK);

        vm.expectRevert(
            abi.encodeWithSelector(
                IMetaScheduler.MetaScheduledScheduledStatusOnly.selector, JobStatus.RUNNING
            )
        );
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
    }

    function test_a_refused_job_waits_again_without_provider_price_and_claim() public {
        JobId jobId = claimed(LOCK);

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
        JobId jobId = matched(LOCK);
        vm.prank(PROVIDER);
        meta.refuseJob(jobId);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, PROVIDER);

        vm.prank(PROVIDER);
        uint256 count = meta.claimJobs(10);

        assertEq(count, 1, "claimed");
        assertStatus(jobId, JobStatus.SCHEDULED);
    }

    function test_only_the_matching_service_times_a_job_out() public {
        JobId jobId = claimed(LOCK);
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

    function _refuseMatch(JobId jobId, address provider) private {
        expectError(IMetaScheduler.ProviderNotJoined.selector);
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, provider);
    }

    function _permit(address customer, uint256 value, uint256 nonce) private view returns (bytes32) {
        bytes32 typeHash =
            keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");
        bytes32 message =
            keccak256(abi.encode(typeHash, customer, address(meta), value, nonce, block.timestamp));
        return keccak256(abi.encodePacked("\x19\x01", credit.DOMAIN_SEPARATOR(), message));
    }
}
