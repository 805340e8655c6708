// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A contract with one owner, who may hand it over or give it up. Wording and events of OpenZeppelin 4.
/// @dev Two ways to hand over: at once, as clients know it, or by an offer that the new owner takes, so that a
/// contract is never lost to an address that nobody can call from.
abstract contract Owned {
    address public owner;
    /// @notice Who was offered the contract and may accept it; 0 if nobody was.
    address public pendingOwner;

    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);
    event OwnershipOffered(address indexed currentOwner, address indexed newOwner);

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    constructor() {
        _setOwner(msg.sender);
    }

    /// @notice Offers the contract to `newOwner` in place of an earlier offer; the zero address withdraws it.
    function offerOwnership(address newOwner) external onlyOwner {
        pendingOwner = newOwner;
        emit OwnershipOffered(msg.sender, newOwner);
    }

    /// @notice Takes the contract that was offered to the caller.
    function acceptOwnership() external {
        require(msg.sender == pendingOwner, "Ownable2Step: caller is not the new owner");
        _setOwner(msg.sender);
    }

    /// @notice Gives the contract to `newOwner` at once. Warning: a wrong address has it for good.
    function transferOwnership(address newOwner) external onlyOwner {
        require(newOwner != address(0), "Ownable: new owner is the zero address");
        _setOwner(newOwner);
    }

    /// @notice Leaves the contract without an owner. Warning: there is no way back.
    function renounceOwnership() external onlyOwner {
        _setOwner(address(0));
    }

    /// @dev An offer ends with the owner who made it.
    function _setOwner(address newOwner) private {
        delete pendingOwner;
        emit OwnershipTransferred(owner, newOwner);
        owner = newOwner;
    }
}
