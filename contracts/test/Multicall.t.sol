// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Multicall} from "../devnet/Multicall.sol";
import {Base} from "./Base.sol";

/// @notice The callee of the tests. It counts the calls that succeed.
contract Callee {
    error Refused(uint256 value);

    uint256 public count;

    function double(uint256 value) external returns (uint256) {
        ++count;
        return 2 * value;
    }

    function refuse(uint256 value) external pure {
        revert Refused(value);
    }
}

/// @notice Tests of the contract through which clients make several calls at once.
contract MulticallTest is Base {
    Multicall private multicall;
    Callee private callee;

    function setUp() public {
        multicall = new Multicall();
        callee = new Callee();
    }

    function test_a_failure_that_is_not_allowed_reverts_all_calls() public {
        Multicall.Call[] memory calls = new Multicall.Call[](2);
        calls[0] = doubling(1);
        calls[1] = refusal({value: 2, allowFailure: false});

        expectString("Multicall3: call failed");
        multicall.aggregate3(calls);

        assertEq(callee.count(), 0, "count");
    }

    function test_results_are_in_the_order_of_the_calls() public {
        Multicall.Call[] memory calls = new Multicall.Call[](2);
        calls[0] = doubling(7);
        calls[1] = doubling(5);

        Multicall.Result[] memory results = multicall.aggregate3(calls);

        assertEq(results.length, 2, "length");
        assertResult(results[0], true, abi.encode(14));
        assertResult(results[1], true, abi.encode(10));
    }

    function test_an_allowed_failure_returns_its_error_and_the_other_calls_succeed() public {
        Multicall.Call[] memory calls = new Multicall.Call[](2);
        calls[0] = refusal({value: 3, allowFailure: true});
        calls[1] = doubling(4);

        Multicall.Result[] memory results = multicall.aggregate3(calls);

        assertResult(results[0], false, abi.encodeWithSelector(Callee.Refused.selector, 3));
        assertResult(results[1], true, abi.encode(8));
    }

    function test_a_call_to_an_address_without_code_succeeds_without_data() public {
        Multicall.Call[] memory calls = new Multicall.Call[](1);
        calls[0] =
            Multicall.Call({target: address(0x1234), allowFailure: false, callData: hex"1234"});

        assertResult(multicall.aggregate3(calls)[0], true, "");
    }

    function test_no_calls_have_no_results() public {
        assertEq(multicall.aggregate3(new Multicall.Call[](0)).length, 0, "length");
    }

    /// @dev The selector of Multicall3, which clients have compiled in.
    function test_the_selector_is_that_of_published_clients() public pure {
        assertEq(uint256(uint32(Multicall.aggregate3.selector)), 0x82ad56cb, "selector");
    }

    function doubling(uint256 value) private view returns (Multicall.Call memory) {
        return Multicall.Call({
            target: address(callee),
            allowFailure: false,
            callData: abi.encodeCall(Callee.double, (value))
        });
    }

    function refusal(uint256 value, bool allowFailure)
        private
        view
        returns (Multicall.Call memory)
    {
        return Multicall.Call({
            target: address(callee),
            allowFailure: allowFailure,
            callData: abi.encodeCall(Callee.refuse, (value))
        });
    }

    function assertResult(Multicall.Result memory result, bool success, bytes memory data)
        private
        pure
    {
        assertTrue(result.success == success, "success");
        assertEq(keccak256(result.returnData), keccak256(data), "data");
    }
}
