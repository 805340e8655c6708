// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Base} from "../Base.sol";
import {Ending} from "./Ending.sol";

/// @notice A proof by campaigns is empty if they stay in shallow water. Here a campaign of the size that CI runs,
/// with the same actions chosen in the same way, must make every legal move and bring about every trick.
contract ReachTest is Base {
    uint256 private constant RUNS = 64;
    uint256 private constant DEPTH = 32;
    uint256 private constant STATES = 9;

    Ending private world;
    string[] private tricks = [
        "bill above the time since the start",
        "call from within a transfer",
        "call from within a transfer that goes through",
        "claim expired",
        "delegated top-up",
        "fees withdrawn",
        "good element beside a bad one",
        "match at price 0",
        "match expired",
        "match of an unfit provider refused",
        "panic of a running job",
        "payment refused",
        "price above what the match accepts",
        "request to cancel a run",
        "run expired",
        "settlement by who was thrown out",
        "stale entry skipped",
        "top-up"
    ];

    function setUp() public {
        world = new Ending();
        world.open();
    }

    function test_a_campaign_makes_every_legal_move_and_every_trick() public {
        uint256[] memory moves = new uint256[](STATES * STATES);
        uint256[] memory seen = new uint256[](tricks.length);
        bytes4[] memory actions = world.actions();
        uint256 seed = 0;

        for (uint256 run = 0; run < RUNS; ++run) {
            uint256 start = vm.snapshotState();
            for (uint256 step = 0; step < DEPTH; ++step) {
                seed = uint256(keccak256(abi.encode(seed)));
                bytes4 action = actions[seed % actions.length];
                seed = uint256(keccak256(abi.encode(seed)));
                bytes memory call =
                    abi.encodeWithSelector(action, seed, keccak256(abi.encode(seed, "mischief")));
                (bool ok,) = address(world).call(call);
                assertTrue(ok, "an action goes through");
            }
            _count(moves, seen);
            vm.revertToState(start); // Memory stays.
        }

        for (uint256 i = 0; i < tricks.length; ++i) {
            assertTrue(seen[i] > 0, tricks[i]);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            bool isLegal = world.witness().isLegal(i / STATES, i % STATES);
            assertTrue(isLegal == (moves[i] > 0), isLegal ? "a legal move is missing" : "an illegal move");
        }
    }

    function _count(uint256[] memory moves, uint256[] memory seen) private view {
        for (uint256 i = 0; i < seen.length; ++i) {
            seen[i] += world.seen(tricks[i]);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            moves[i] += world.witness().moves(i / STATES, i % STATES);
        }
    }
}
