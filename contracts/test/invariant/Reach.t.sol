// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Base} from "../Base.sol";
import {Ending} from "./Ending.sol";

/// @notice Campaigns (random sequences of actions) that reach few states detect few faults. This
/// test makes as many campaigns as an invariant test in CI, of the same length and from the same
/// actions. Together they must make every legal transition and reach every situation in the list
/// `situations`. Some of these situations are attacks, for example a call during a transfer.
contract ReachTest is Base {
    uint256 private constant RUNS = 64;
    uint256 private constant DEPTH = 32;
    uint256 private constant STATES = 9;

    Ending private handler;
    string[] private situations = [
        "bill above the time since the start",
        "bill above the time until a request",
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
        "price above the maximum of the match",
        "refusal of a request to cancel",
        "request to cancel a claimed job",
        "request to cancel a run",
        "request to cancel expired",
        "run expired",
        "settlement by a removed provider",
        "stale entry skipped",
        "top-up"
    ];

    function setUp() public {
        handler = new Ending();
        handler.createJobs();
    }

    function test_a_campaign_makes_every_legal_transition_and_every_attack() public {
        uint256[] memory transitions = new uint256[](STATES * STATES);
        uint256[] memory occurrences = new uint256[](situations.length);
        bytes4[] memory actions = handler.actions();
        uint256 seed = 0;

        for (uint256 run = 0; run < RUNS; ++run) {
            uint256 snapshot = vm.snapshotState();
            for (uint256 step = 0; step < DEPTH; ++step) {
                seed = uint256(keccak256(abi.encode(seed)));
                bytes4 action = actions[seed % actions.length];
                seed = uint256(keccak256(abi.encode(seed)));
                bytes memory call =
                    abi.encodeWithSelector(action, seed, keccak256(abi.encode(seed, "tokenSeed")));
                (bool ok,) = address(handler).call(call);
                assertTrue(ok, "an action does not revert");
            }
            _count(transitions, occurrences);
            vm.revertToState(snapshot); // Resets the contracts, but not the local variables.
        }

        for (uint256 i = 0; i < situations.length; ++i) {
            assertTrue(occurrences[i] > 0, situations[i]);
        }
        for (uint256 i = 0; i < transitions.length; ++i) {
            bool isLegal = handler.witness().isLegal(i / STATES, i % STATES);
            if (isLegal) assertTrue(transitions[i] > 0, "a legal transition is missing");
            else assertEq(transitions[i], 0, "an illegal transition");
        }
    }

    function _count(uint256[] memory transitions, uint256[] memory occurrences) private view {
        for (uint256 i = 0; i < occurrences.length; ++i) {
            occurrences[i] += handler.occurrences(situations[i]);
        }
        for (uint256 i = 0; i < transitions.length; ++i) {
            transitions[i] += handler.witness().transitions(i / STATES, i % STATES);
        }
    }
}
