// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IMetaScheduler} from "../src/interfaces/IMetaScheduler.sol";
import {JobId, JobStatus} from "../src/Types.sol";
import {Log} from "./Base.sol";
import {Grid} from "./Grid.sol";

/// @notice Tests of the indexed fields (topics) of events. A node can filter events by topics. An
/// account can therefore fetch the events of its own jobs without those of other jobs.
contract TopicsTest is Grid {
    bytes32[] private topicsOfProviders = [
        IMetaScheduler.JobMatched.selector,
        IMetaScheduler.JobUnmatched.selector,
        IMetaScheduler.JobClaimed.selector,
        IMetaScheduler.JobStarted.selector,
        IMetaScheduler.JobCancelRequested.selector,
        IMetaScheduler.JobToppedUp.selector,
        IMetaScheduler.JobSettled.selector,
        IMetaScheduler.JobRefunded.selector
    ];

    function test_a_provider_finds_all_events_of_its_jobs_by_address() public {
        vm.recordLogs();
        uint256 last = _runJobs(ALICE, PROVIDER);
        _runJobs(BOB, OTHER_PROVIDER);

        Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < topicsOfProviders.length; ++i) {
            _expectFound(logs, topicsOfProviders[i], PROVIDER, last);
        }
    }

    function test_a_customer_finds_requests_and_refunds_by_address() public {
        vm.recordLogs();
        uint256 last = _runJobs(ALICE, PROVIDER);
        _runJobs(BOB, OTHER_PROVIDER);

        Log[] memory logs = vm.getRecordedLogs();
        _expectFound(logs, IMetaScheduler.JobRequested.selector, ALICE, last);
        _expectFound(logs, IMetaScheduler.JobRefunded.selector, ALICE, last);
    }

    function test_a_provider_finds_changes_of_its_offer_by_address() public {
        vm.recordLogs();
        vm.startPrank(PROVIDER);
        providers.setPrices(prices());
        providers.setDraining(true);

        Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 2, "two events");
        assertEq(logs[0].topics[1], _word(PROVIDER), "prices");
        assertEq(logs[1].topics[1], _word(PROVIDER), "draining");
    }

    /// @dev Runs and settles one job. Another job is refused, matched again, and panics. These
    /// calls emit all events of a provider. Returns the id of the second job.
    function _runJobs(address customer, address provider) private returns (uint256 last) {
        JobId first = request(customer, ESCROW);
        JobId second = request(customer, ESCROW);
        _match(first, provider);
        vm.startPrank(provider);
        meta.claimNextJob();
        meta.setJobRunning(first, uint64(block.timestamp));
        vm.stopPrank();
        vm.startPrank(customer);
        meta.topUpJob(first, 1e18);
        meta.cancelJob(first);
        vm.stopPrank();
        vm.prank(provider);
        meta.settleJob(first, uint8(JobStatus.CANCELLED), 0, 0, "", bytes32(0));
        _match(second, provider);
        vm.prank(provider);
        meta.refuseJob(second);
        _match(second, provider);
        vm.prank(MATCHER);
        meta.panicJob(second, "");
        return uint256(JobId.unwrap(second));
    }

    function _match(JobId jobId, address provider) private {
        vm.prank(MATCHER);
        meta.metaSchedule(jobId, provider);
    }

    /// @dev Checks that at least one event of this kind has the account in a topic, and that all
    /// such events are about the jobs of the account. Jobs with an id above `last` belong to
    /// another account.
    function _expectFound(Log[] memory logs, bytes32 topic, address account, uint256 last)
        private
        pure
    {
        bool isFound = false;
        for (uint256 i = 0; i < logs.length; ++i) {
            bytes32[] memory topics = logs[i].topics;
            if (topics[0] != topic) continue;
            // Topic 1 is the job id. The next topics are accounts.
            for (uint256 j = 2; j < topics.length; ++j) {
                if (topics[j] != _word(account)) continue;
                isFound = true;
                assertTrue(uint256(topics[1]) <= last, "no job of another account");
            }
        }
        assertTrue(isFound, "an event is found");
    }

    function _word(address account) private pure returns (bytes32) {
        return bytes32(uint256(uint160(account)));
    }
}
