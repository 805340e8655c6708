// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice An event as forge returns it.
struct Log {
    bytes32[] topics;
    bytes data;
    address emitter;
}

/// @notice The cheat codes of forge that these tests use.
interface Vm {
    function addr(uint256 privateKey) external pure returns (address);
    function cool(address target) external;
    function expectCall(address callee, bytes calldata data, uint64 count) external;
    function expectEmit(bool topic1, bool topic2, bool topic3, bool data, address emitter) external;
    function expectRevert(bytes calldata revertData) external;
    function getRecordedLogs() external returns (Log[] memory);
    function prank(address sender) external;
    function recordLogs() external;
    function revertToState(uint256 snapshot) external returns (bool);
    function roll(uint256 blockNumber) external;
    function sign(uint256 privateKey, bytes32 digest)
        external
        pure
        returns (uint8 v, bytes32 r, bytes32 s);
    function snapshotState() external returns (uint256 snapshot);
    function startPrank(address sender) external;
    function stopPrank() external;
    function warp(uint256 timestamp) external;
}

/// @notice The base of all tests: cheat codes, assertions with a label, and bounds for fuzzed
/// numbers.
abstract contract Base {
    Vm internal constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);

    error NotEqual(string label, uint256 actual, uint256 expected);
    error NotTrue(string label);

    function assertEq(uint256 actual, uint256 expected, string memory label) internal pure {
        if (actual != expected) revert NotEqual(label, actual, expected);
    }

    function assertEq(address actual, address expected, string memory label) internal pure {
        assertEq(uint256(uint160(actual)), uint256(uint160(expected)), label);
    }

    function assertEq(bytes32 actual, bytes32 expected, string memory label) internal pure {
        assertEq(uint256(actual), uint256(expected), label);
    }

    function assertEq(string memory actual, string memory expected, string memory label)
        internal
        pure
    {
        assertEq(keccak256(bytes(actual)), keccak256(bytes(expected)), label);
    }

    function assertTrue(bool condition, string memory label) internal pure {
        if (!condition) revert NotTrue(label);
    }

    /// @dev Maps a fuzzed number into a range.
    function bound(uint256 value, uint256 minimum, uint256 maximum)
        internal
        pure
        returns (uint256)
    {
        if (value >= minimum && value <= maximum) return value;
        // The sum cannot overflow: the value is outside of the range, so the range is not all of
        // uint256.
        return minimum + value % (maximum - minimum + 1);
    }

    function expectString(string memory reason) internal {
        vm.expectRevert(abi.encodeWithSignature("Error(string)", reason));
    }

    function expectError(bytes4 selector) internal {
        vm.expectRevert(abi.encodeWithSelector(selector));
    }
}
