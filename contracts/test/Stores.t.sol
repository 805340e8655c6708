// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {Job, JobId, JobStatus, JobTerms, JobTime} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice The queues of jobs and the records of jobs. Only MetaScheduler may write them. Every
/// account may read them.
contract StoresTest is Grid {
    JobId private constant UNKNOWN = JobId.wrap(bytes32(uint256(999)));

    // ProviderJobQueues

    function test_only_the_owner_pushes_and_pops() public {
        expectString("Ownable: caller is not the owner");
        queues.push(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER, UNKNOWN);
        expectString("Ownable: caller is not the owner");
        queues.pop(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER);
    }

    function test_peek_returns_live_jobs_in_order() public {
        JobId first = matchedJob(ESCROW);
        JobId cancelled = matchedJob(ESCROW);
        JobId last = matchedJob(ESCROW);
        vm.prank(ALICE);
        meta.cancelJob(cancelled);

        JobId[] memory all = queues.peek(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER, 9);
        JobId[] memory one = queues.peek(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER, 1);

        assertEq(all.length, 2, "live");
        assertEq(JobId.unwrap(all[0]), JobId.unwrap(first), "first");
        assertEq(JobId.unwrap(all[1]), JobId.unwrap(last), "last");
        assertEq(one.length, 1, "at most one");
    }

    function test_the_ends_of_the_queues_can_be_read() public {
        JobId jobId = claimedJob(ESCROW);
        matchedJob(ESCROW);
        vm.startPrank(ALICE);
        meta.topUpJob(jobId, 1e18);
        meta.cancelJob(jobId);

        (int128 begin, int128 end) = queues.providerClaimableJobsQueues(PROVIDER);
        (, int128 cancelling) = queues.providerCancellingJobsQueues(PROVIDER);
        (, int128 topUps) = queues.providerTopUpJobsQueues(PROVIDER);

        // Two jobs were added to the queue. One of the two was claimed.
        assertTrue(begin == 1 && end == 2, "claimable");
        assertTrue(cancelling == 1, "cancelling");
        assertTrue(topUps == 1, "top-ups");
        assertEq(queues.getTopUpJobQueueSize(PROVIDER), 1, "size");
    }

    // JobRepository

    function test_only_metascheduler_writes_records() public {
        JobId jobId = matchedJob(ESCROW);

        vm.prank(MATCHER);
        (bool ok,) = address(jobs).call(abi.encodeCall(jobs.setClaimed, (jobId)));

        assertTrue(!ok, "refused");
    }

    function test_a_repository_without_admin_keeps_its_writer() public {
        bytes32 role = jobs.METASCHEDULER_ROLE();
        jobs.renounceRole(0, address(this));

        (bool isGranted,) =
            address(jobs).call(abi.encodeCall(jobs.grantRole, (role, address(this))));
        (bool isRevoked,) =
            address(jobs).call(abi.encodeCall(jobs.revokeRole, (role, address(meta))));

        assertTrue(!isGranted && !isRevoked, "refused");
        assertTrue(jobs.hasRole(role, address(meta)), "writer");
    }

    function test_many_records_are_read_at_once() public {
        JobId[] memory ids = new JobId[](2);
        ids[0] = request(ALICE, ESCROW);
        ids[1] = matchedJob(2 * ESCROW);

        JobTerms[] memory terms = jobs.termsMany(ids);

        assertEq(jobs.getMany(ids)[1].cost.maxCost, 2 * ESCROW, "whole records");
        assertEq(terms[0].provider, address(0), "first provider");
        assertEq(terms[1].provider, PROVIDER, "second provider");
    }

    function test_a_job_that_ended_without_a_start_has_a_run_time_of_zero() public {
        JobId[] memory ids = new JobId[](2);
        ids[0] = request(ALICE, ESCROW);
        ids[1] = claimedJob(ESCROW);
        assertEq(jobOf(ids[1]).time.start, 0, "start of a claimed job");
        passTime(600);
        vm.prank(ALICE);
        meta.cancelJob(ids[0]);
        settle(ids[1], JobStatus.FAILED, 60);
        passTime(600);

        Job[] memory ended = jobs.getMany(ids);

        for (uint256 i = 0; i < ids.length; ++i) {
            assertEq(ended[i].time.end, START_TIME + 600, "end");
            assertEq(ended[i].time.start, ended[i].time.end, "start");
            (,,,,,, JobTime memory time,,,,) = jobs.jobs(ids[i]);
            assertEq(time.start, time.end, "start in the published getter");
            assertEq(jobs.terms(ids[i]).startTime, 0, "stored start");
        }
    }

    function test_the_published_getter_returns_zeros_for_an_unknown_job() public {
        JobId jobId = request(ALICE, ESCROW);

        (bool isRead, bytes memory jobData) = address(jobs).call(abi.encodeCall(jobs.jobs, (jobId)));
        (bool isUnknownRead, bytes memory unknownData) =
            address(jobs).call(abi.encodeCall(jobs.jobs, (UNKNOWN)));

        assertTrue(isRead && isUnknownRead, "no revert");
        assertEq(abi.decode(jobData, (bytes32)), JobId.unwrap(jobId), "existing job");
        assertEq(abi.decode(unknownData, (bytes32)), 0, "unknown job");
    }
}
