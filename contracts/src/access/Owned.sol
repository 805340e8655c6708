// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A contract with one owner, who may hand it over or give it up. Wording and events of OpenZeppelin 4.
abstract contract Owned {
    address public owner;

    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    constructor() {
        _setOwner(msg.sender);
    }

    /// @notice Gives the contract to `newOwner`.
    function transferOwnership(address newOwner) external onlyOwner {
        require(newOwner != address(0), "Ownable: new owner is the zero address");
        _setOwner(newOwner);
    }

    /// @notice Leaves the contract without an owner. Warning: there is no way back.
    function renounceOwnership() external onlyOwner {
        _setOwner(address(0));
    }

    function _setOwner(address newOwner) private {
        emit OwnershipTransferred(owner, newOwner);
        owner = newOwner;
    }
}
