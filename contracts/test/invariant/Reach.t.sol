// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Base} from "../Base.sol";
import {Ending} from "./Ending.sol";

/// @notice Campaigns show little if they reach few states. Here a campaign of the size that CI
/// runs, with the same actions chosen in the same way, must make every legal transition and try
/// every attack.
contract ReachTest is Base {
    uint256 private constant RUNS = 64;
    uint256 private constant DEPTH = 32;
    uint256 private constant STATES = 9;

    Ending private world;
    string[] private attacks = [
        "bill above the time since the start",
        "call during a transfer",
        "successful call during a transfer",
        "claim expired",
        "delegated top-up",
        "fees withdrawn",
        "valid element next to an invalid one",
        "match at price 0",
        "match expired",
        "match to an invalid provider refused",
        "panic of a running job",
        "payment refused",
        "price above what the match accepts",
        "request to cancel a run",
        "run expired",
        "settlement by a removed provider",
        "stale entry skipped",
        "top-up"
    ];

    function setUp() public {
        world = new Ending();
        world.open();
    }

    function test_a_campaign_makes_every_legal_transition_and_every_attack() public {
        uint256[] memory moves = new uint256[](STATES * STATES);
        uint256[] memory seen = new uint256[](attacks.length);
        bytes4[] memory actions = world.actions();
        uint256 seed = 0;

        for (uint256 run = 0; run < RUNS; ++run) {
            uint256 start = vm.snapshotState();
            for (uint256 step = 0; step < DEPTH; ++step) {
                seed = uint256(keccak256(abi.encode(seed)));
                bytes4 action = actions[seed % actions.length];
                seed = uint256(keccak256(abi.encode(seed)));
                bytes memory call =
                    abi.encodeWithSelector(action, seed, keccak256(abi.encode(seed, "tokenSeed")));
                (bool ok,) = address(world).call(call);
                assertTrue(ok, "an action does not revert");
            }
            _count(moves, seen);
            vm.revertToState(start); // Memory is not reverted.
        }

        for (uint256 i = 0; i < attacks.length; ++i) {
            assertTrue(seen[i] > 0, attacks[i]);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            bool isLegal = world.witness().isLegal(i / STATES, i % STATES);
            assertTrue(
                isLegal == (moves[i] > 0), isLegal ? "a legal move is missing" : "an illegal move"
            );
        }
    }

    function _count(uint256[] memory moves, uint256[] memory seen) private view {
        for (uint256 i = 0; i < seen.length; ++i) {
            seen[i] += world.seen(attacks[i]);
        }
        for (uint256 i = 0; i < moves.length; ++i) {
            moves[i] += world.witness().moves(i / STATES, i % STATES);
        }
    }
}
