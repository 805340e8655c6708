// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProviderJobQueues} from "../src/interfaces/IProviderJobQueues.sol";
import {JobId, JobTerms} from "../src/Types.sol";
import {Grid} from "./Grid.sol";

/// @notice What MetaScheduler alone writes and everybody reads: queues and records.
contract StoresTest is Grid {
    JobId private constant UNKNOWN = JobId.wrap(bytes32(uint256(999)));

    // ProviderJobQueues

    function test_only_the_owner_pushes_and_pops() public {
        expectString("Ownable: caller is not the owner");
        queues.push(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER, UNKNOWN);
        expectString("Ownable: caller is not the owner");
        queues.pop(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER);
    }

    function test_a_look_into_the_queue_lists_live_jobs_in_order() public {
        JobId first = matched(LOCK);
        JobId gone = matched(LOCK);
        JobId last = matched(LOCK);
        vm.prank(ALICE);
        meta.cancelJob(gone);

        JobId[] memory all = queues.peek(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER, 9);
        JobId[] memory one = queues.peek(IProviderJobQueues.Kind.CLAIMABLE, PROVIDER, 1);

        assertEq(all.length, 2, "live");
        assertEq(JobId.unwrap(all[0]), JobId.unwrap(first), "first");
        assertEq(JobId.unwrap(all[1]), JobId.unwrap(last), "last");
        assertEq(one.length, 1, "at most");
    }

    function test_the_ends_of_the_queues_can_be_read() public {
        JobId jobId = claimed(LOCK);
        matched(LOCK);
        vm.startPrank(ALICE);
        meta.topUpJob(jobId, 1e18);
        meta.cancelJob(jobId);

        (int128 begin, int128 end) = queues.providerClaimableJobsQueues(PROVIDER);
        (, int128 cancelling) = queues.providerCancellingJobsQueues(PROVIDER);
        (, int128 topUps) = queues.providerTopUpJobsQueues(PROVIDER);

        assertTrue(begin == 1 && end == 2, "claimable");
        assertTrue(cancelling == 1, "cancelling");
        assertTrue(topUps == 1, "top-ups");
        assertEq(queues.getTopUpJobQueueSize(PROVIDER), 1, "size");
    }

    // JobRepository

    function test_only_metascheduler_writes_records() public {
        JobId jobId = matched(LOCK);

        vm.prank(MATCHER);
        (bool ok,) = address(jobs).call(abi.encodeCall(jobs.setClaimed, (jobId)));

        assertTrue(!ok, "refused");
    }

    function test_a_repository_whose_admin_resigned_keeps_its_writer() public {
        bytes32 role = jobs.METASCHEDULER_ROLE();
        jobs.renounceRole(0, address(this));

        (bool given,) = address(jobs).call(abi.encodeCall(jobs.grantRole, (role, address(this))));
        (bool taken,) = address(jobs).call(abi.encodeCall(jobs.revokeRole, (role, address(meta))));

        assertTrue(!given && !taken, "refused");
        assertTrue(jobs.hasRole(role, address(meta)), "writer");
    }

    function test_many_records_are_read_at_once() public {
        JobId[] memory ids = new JobId[](2);
        ids[0] = request(ALICE, LOCK);
        ids[1] = matched(2 * LOCK);

        JobTerms[] memory terms = jobs.termsMany(ids);

        assertEq(jobs.getMany(ids)[1].cost.maxCost, 2 * LOCK, "whole records");
        assertEq(terms[0].provider, address(0), "first provider");
        assertEq(terms[1].provider, PROVIDER, "second provider");
    }

    function test_the_old_getter_answers_zeros_for_no_job() public {
        JobId jobId = request(ALICE, LOCK);

        (bool ok, bytes memory known) = address(jobs).call(abi.encodeCall(jobs.jobs, (jobId)));
        (bool okUnknown, bytes memory unknown) = address(jobs).call(abi.encodeCall(jobs.jobs, (UNKNOWN)));

        assertTrue(ok && okUnknown, "no revert");
        assertEq(abi.decode(known, (bytes32)), JobId.unwrap(jobId), "known");
        assertEq(abi.decode(unknown, (bytes32)), 0, "unknown");
    }
}
