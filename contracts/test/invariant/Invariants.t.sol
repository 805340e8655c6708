// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProviderJobQueues} from "../../src/interfaces/IProviderJobQueues.sol";
import {JobId, JobStatus, JobTerms} from "../../src/Types.sol";
import {Base} from "../Base.sol";
import {Ending} from "./Ending.sol";
import {Witness} from "./Witness.sol";

/// @notice The invariants that must hold after each call of a campaign, which is a random sequence
/// of calls. contracts/README.md lists the invariants, each with its tests.
/// @dev The witness records every job and every broken rule. These tests compare its records with
/// the contracts.
/// forge-config: default.invariant.fail-on-revert = true
contract InvariantsTest is Base {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    Ending private handler;

    function setUp() public {
        handler = new Ending();
        handler.createJobs();
    }

    function targetContracts() public view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }

    function targetSelectors() public view returns (FuzzSelector[] memory targets) {
        targets = new FuzzSelector[](1);
        targets[0] = FuzzSelector(address(handler), handler.actions());
    }

    /// @dev Ends every job after a campaign. One of the invariants is that this is possible.
    function afterInvariant() public {
        // Forge shortens a failing sequence. The share of successful calls is not checked in a
        // short sequence, because it can happen that none of its calls succeeds.
        bool isShrunk = handler.attempts() < 16;
        if (!isShrunk) {
            assertTrue(8 * handler.successes() > handler.attempts(), "enough calls succeed");
        }
        handler.endAllJobs();
        _assertNoRuleIsBroken();
        _assertEndedJobsUnchanged();
        assertEq(handler.token().balanceOf(address(handler.meta())), 0, "no escrow is left");
    }

    function invariant_escrow_and_fees_match_the_witness() public view {
        Witness witness = handler.witness();
        Witness.JobRecord[] memory jobRecords = witness.jobRecords();
        uint256 locked = 0;
        for (uint256 i = 0; i < jobRecords.length; ++i) {
            if (_isHot(jobRecords[i].status)) locked += jobRecords[i].locked;
        }
        uint256 fees = handler.meta().accruedFees();
        assertEq(
            fees, witness.feesEver() - handler.withdrawnFees(), "fees come only from settlements"
        );
        assertEq(
            handler.token().balanceOf(address(handler.meta())),
            locked + fees,
            "balance = escrow of hot jobs + fees"
        );
        assertEq(
            handler.token().sentToGrid(),
            witness.lockedEver(),
            "credits taken from customers = credits ever locked"
        );
        assertEq(
            handler.token().sentByGrid(address(handler)),
            handler.withdrawnFees(),
            "the admin received exactly the withdrawn fees"
        );
        for (uint256 i = 0; i < 3; ++i) {
            _assertReceived(handler.customers(i));
            _assertReceived(handler.providers(i));
        }
    }

    /// @notice The witness checks the rules of each write of a record. The actions of the handler
    /// check the results of their calls.
    function invariant_no_rule_is_broken() public view {
        _assertNoRuleIsBroken();
    }

    function invariant_records_match_the_witness() public view {
        Witness.JobRecord[] memory jobRecords = handler.witness().jobRecords();
        JobTerms[] memory terms = handler.repository().termsMany(_ids(jobRecords.length));
        for (uint256 i = 0; i < jobRecords.length; ++i) {
            assertEq(uint256(terms[i].status), uint256(jobRecords[i].status), "status");
            assertEq(terms[i].customer, jobRecords[i].customer, "customer");
            assertEq(terms[i].provider, jobRecords[i].provider, "provider");
            assertEq(terms[i].pricePerMinute, jobRecords[i].price, "price");
            assertEq(terms[i].maxCost, jobRecords[i].locked, "escrow");
            assertTrue(terms[i].hasCancelRequest == jobRecords[i].isCancelRequested, "request");
            address provider = jobRecords[i].provider;
            bool isPending =
                _belongsInQueue(jobRecords[i], provider, IProviderJobQueues.Kind.TOP_UP);
            bool isReported = handler.repository().isToppedUp(JobId.wrap(bytes32(i + 1)), provider);
            assertTrue(isReported == isPending, "pending top-up");
        }
    }

    function invariant_queues_have_exactly_the_waiting_jobs() public view {
        Witness.JobRecord[] memory jobRecords = handler.witness().jobRecords();
        for (uint256 i = 0; i < 3; ++i) {
            address provider = handler.providers(i);
            // The end position of a queue is the number of entries that were ever added.
            (, int128 end) = handler.queues().providerClaimableJobsQueues(provider);
            assertEq(
                uint128(end),
                handler.witness().matchesByProvider(provider),
                "one entry for each match"
            );
            _assertQueue(jobRecords, provider, IProviderJobQueues.Kind.CLAIMABLE);
            _assertQueue(jobRecords, provider, IProviderJobQueues.Kind.CANCELLING);
            _assertQueue(jobRecords, provider, IProviderJobQueues.Kind.TOP_UP);
        }
    }

    /// @dev Checks that the job of each visible entry belongs to the provider and is in a state of
    /// this queue. Also checks that each such job has a visible entry, except in the cancel queue:
    /// the provider may already have claimed the cancel entry of a job.
    function _assertQueue(
        Witness.JobRecord[] memory jobRecords,
        address provider,
        IProviderJobQueues.Kind kind
    ) private view {
        JobId[] memory ids = handler.queues().peek(kind, provider, type(uint256).max);
        bool isCancelQueue = kind == IProviderJobQueues.Kind.CANCELLING;
        bool[] memory isListed = new bool[](jobRecords.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            uint256 index = uint256(JobId.unwrap(ids[i])) - 1;
            assertTrue(
                _belongsInQueue(jobRecords[index], provider, kind),
                "the job of a visible entry is in the state of this queue"
            );
            if (isCancelQueue) assertTrue(!isListed[index], "a job has one cancel entry");
            isListed[index] = true;
        }
        if (isCancelQueue) return;
        for (uint256 i = 0; i < isListed.length; ++i) {
            bool isExpected = _belongsInQueue(jobRecords[i], provider, kind);
            assertTrue(isListed[i] == isExpected, "a job in the state of this queue is visible");
        }
    }

    function _belongsInQueue(
        Witness.JobRecord memory job,
        address provider,
        IProviderJobQueues.Kind kind
    ) private pure returns (bool) {
        if (job.provider != provider) return false;
        if (kind == IProviderJobQueues.Kind.CLAIMABLE) {
            return job.status == JobStatus.META_SCHEDULED;
        }
        if (kind == IProviderJobQueues.Kind.TOP_UP) {
            bool isClaimed = job.status == JobStatus.SCHEDULED || job.status == JobStatus.RUNNING;
            // The provider has not been notified of the whole escrow.
            return isClaimed && job.notified != job.locked;
        }
        // The cancel queue. A request to cancel a claimed or running job does not change its state.
        bool isClaimedOrRunning =
            job.status == JobStatus.SCHEDULED || job.status == JobStatus.RUNNING;
        return job.status == JobStatus.CANCELLED || job.status == JobStatus.PANICKED
            || (isClaimedOrRunning && job.isCancelRequested);
    }

    function _isHot(JobStatus status) private pure returns (bool) {
        return status < JobStatus.CANCELLED;
    }

    function _assertReceived(address account) private view {
        assertEq(
            handler.token().sentByGrid(account),
            handler.witness().owedEver(account),
            "the account received exactly what the escrow owed it"
        );
    }

    function _assertNoRuleIsBroken() private view {
        _assertEmpty(handler.witness().violation());
        _assertEmpty(handler.violation());
    }

    function _assertEmpty(string memory violation) private pure {
        assertTrue(bytes(violation).length == 0, violation);
    }

    function _assertEndedJobsUnchanged() private view {
        Witness.JobRecord[] memory jobRecords = handler.witness().jobRecords();
        for (uint256 i = 0; i < jobRecords.length; ++i) {
            assertEq(
                jobRecords[i].hashAtEnd,
                handler.witness().hashOf(i + 1),
                "an ended job does not change"
            );
        }
    }

    function _ids(uint256 count) private pure returns (JobId[] memory ids) {
        ids = new JobId[](count);
        for (uint256 i = 0; i < count; ++i) {
            ids[i] = JobId.wrap(bytes32(i + 1));
        }
    }
}
