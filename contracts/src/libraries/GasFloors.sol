// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The gas that a customer's call requires before it changes anything.
/// @dev The gas of these calls depends on state that other accounts change in the next block: for
/// example, whether a job has a provider and whether a slot of a queue is empty. Existing clients
/// send a transaction with exactly the gas that a node estimated. Without a floor, the transaction
/// could run out of gas, and the job would be billed on. With a floor, a node finds no lower gas
/// limit that works, so its estimate suffices in every state. Each floor is the gas of the dearest
/// state plus at least 10 %. A test compares the floors with contracts/gas.md. Unused gas is not
/// paid.
library GasFloors {
    uint256 internal constant CANCEL = 200_000;
    uint256 internal constant TOP_UP = 165_000;
    uint256 internal constant REQUEST = 60_000;
    uint256 internal constant REQUEST_PER_BYTE = 520;

    /// @notice Reverts if less gas is left than a floor. Reverts with a string, because the
    /// published ABI has no error for this.
    function check(uint256 floor) internal view {
        require(gasleft() >= floor, "MetaScheduler: gas limit too low");
    }

    /// @notice The floor of a request, which stores the texts of its calldata.
    function ofRequest() internal pure returns (uint256) {
        return REQUEST + REQUEST_PER_BYTE * msg.data.length;
    }
}
