// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProviderJobQueues} from "../../src/interfaces/IProviderJobQueues.sol";
import {JobId, JobStatus, JobTerms} from "../../src/Types.sol";
import {Base} from "../Base.sol";
import {Ending} from "./Ending.sol";
import {Witness} from "./Witness.sol";

/// @notice The invariants that must hold after each call of a campaign, with their numbers in
/// contracts/README.md.
/// @dev The witness records every job and broken rules; these tests compare its records with the
/// contracts.
/// forge-config: default.invariant.fail-on-revert = true
contract InvariantsTest is Base {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    Ending private world;

    function setUp() public {
        world = new Ending();
        world.open();
    }

    function targetContracts() public view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(world);
    }

    function targetSelectors() public view returns (FuzzSelector[] memory targets) {
        targets = new FuzzSelector[](1);
        targets[0] = FuzzSelector(address(world), world.actions());
    }

    /// @dev Every campaign ends every job at its end, which is also an invariant.
    function afterInvariant() public {
        bool isShort = world.attempts() < 16; // When forge shrinks a failing sequence.
        assertTrue(isShort || 8 * world.successes() > world.attempts(), "enough calls succeed");
        world.end();
        _assertRules();
        _assertEndedStay();
        assertEq(world.token().balanceOf(address(world.meta())), 0, "every escrow ends");
    }

    /// @notice Invariants 1, 2, 9 and 12.
    function invariant_escrow_and_fees_match_the_witness() public view {
        Witness witness = world.witness();
        Witness.Book[] memory books = witness.books();
        uint256 locked = 0;
        for (uint256 i = 0; i < books.length; ++i) {
            if (books[i].status < JobStatus.CANCELLED) locked += books[i].locked;
        }
        uint256 fees = world.meta().accruedFees();
        assertEq(fees, witness.feesEver() - world.withdrawn(), "fees come only from settlements");
        assertEq(world.token().balanceOf(address(world.meta())), locked + fees, "escrow and fees");
        assertEq(world.token().pulled(), witness.lockedEver(), "the pulled credits are the escrow");
        assertEq(world.token().received(address(world)), world.withdrawn(), "the admin's share");
        for (uint256 i = 0; i < 3; ++i) {
            _assertReceived(world.customers(i));
            _assertReceived(world.providers(i));
        }
    }

    /// @notice Invariants 4, 5, 7, 8, 11, 14 and 21, as rules of the witness; 13, 15 and 27, as
    /// rules of the actions.
    function invariant_no_rule_is_broken() public view {
        _assertRules();
    }

    /// @notice Invariants 6, 11 and 21.
    function invariant_records_match_the_witness() public view {
        Witness.Book[] memory books = world.witness().books();
        JobTerms[] memory terms = world.repository().termsMany(_ids(books.length));
        for (uint256 i = 0; i < books.length; ++i) {
            assertEq(uint256(terms[i].status), uint256(books[i].status), "status");
            assertEq(terms[i].customer, books[i].customer, "customer");
            assertEq(terms[i].provider, books[i].provider, "provider");
            assertEq(terms[i].pricePerMinute, books[i].price, "price");
            assertEq(terms[i].maxCost, books[i].locked, "escrow");
            bool isPending = _waits(books[i], books[i].provider, IProviderJobQueues.Kind.TOP_UP);
            JobId id = JobId.wrap(bytes32(i + 1));
            assertTrue(
                world.repository().isToppedUp(id, books[i].provider) == isPending, "pending top-up"
            );
        }
    }

    /// @notice Invariants 18, 20 and 22.
    function invariant_queues_have_exactly_the_waiting_jobs() public view {
        Witness.Book[] memory books = world.witness().books();
        for (uint256 i = 0; i < 3; ++i) {
            address provider = world.providers(i);
            (, int128 pushed) = world.queues().providerClaimableJobsQueues(provider);
            assertEq(
                uint128(pushed), world.witness().matchesOf(provider), "one entry for each match"
            );
            _assertQueue(books, provider, IProviderJobQueues.Kind.CLAIMABLE);
            _assertQueue(books, provider, IProviderJobQueues.Kind.CANCELLING);
            _assertQueue(books, provider, IProviderJobQueues.Kind.TOP_UP);
        }
    }

    /// @dev Each visible entry is of a job of that provider in the right state. Every such job is
    /// visible, except one whose request to cancel was already claimed.
    function _assertQueue(
        Witness.Book[] memory books,
        address provider,
        IProviderJobQueues.Kind kind
    ) private view {
        JobId[] memory ids = world.queues().peek(kind, provider, type(uint256).max);
        bool isClaimed = kind == IProviderJobQueues.Kind.CANCELLING;
        bool[] memory isListed = new bool[](books.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            uint256 index = uint256(JobId.unwrap(ids[i])) - 1;
            assertTrue(_waits(books[index], provider, kind), "a visible entry waits");
            assertTrue(!isClaimed || !isListed[index], "a cancellation is claimed once");
            isListed[index] = true;
        }
        for (uint256 i = 0; i < isListed.length; ++i) {
            assertTrue(
                isClaimed || isListed[i] == _waits(books[i], provider, kind),
                "a waiting entry is visible"
            );
        }
    }

    function _waits(Witness.Book memory b, address provider, IProviderJobQueues.Kind kind)
        private
        pure
        returns (bool)
    {
        if (b.provider != provider) return false;
        if (kind == IProviderJobQueues.Kind.CLAIMABLE) return b.status == JobStatus.META_SCHEDULED;
        bool isClaimed = b.status == JobStatus.SCHEDULED || b.status == JobStatus.RUNNING;
        if (kind == IProviderJobQueues.Kind.TOP_UP) return isClaimed && b.notified != b.locked;
        return b.status == JobStatus.CANCELLED || b.status == JobStatus.PANICKED
            || b.status == JobStatus.RUNNING;
    }

    function _assertReceived(address account) private view {
        assertEq(
            world.token().received(account), world.witness().owed(account), "all debts are paid"
        );
    }

    function _assertRules() private view {
        _assertNone(world.witness().violation());
        _assertNone(world.violation());
    }

    function _assertNone(string memory violation) private pure {
        assertTrue(bytes(violation).length == 0, violation);
    }

    function _assertEndedStay() private view {
        Witness.Book[] memory books = world.witness().books();
        for (uint256 i = 0; i < books.length; ++i) {
            assertEq(books[i].seal, world.witness().sealOf(i + 1), "an ended job does not change");
        }
    }

    function _ids(uint256 count) private pure returns (JobId[] memory ids) {
        ids = new JobId[](count);
        for (uint256 i = 0; i < count; ++i) {
            ids[i] = JobId.wrap(bytes32(i + 1));
        }
    }
}
