// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A contract with one owner, who may transfer or renounce the ownership. The errors and
/// events are those of OpenZeppelin 4, except event OwnershipOffered.
/// @dev The ownership is transferred either at once, as in OpenZeppelin, or by an offer that the
/// new owner accepts. An offer to a wrong address is harmless, because the old owner can replace
/// it.
abstract contract Owned {
    address public owner;
    /// @notice The account that may accept the ownership; 0 if there is no offer.
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

    /// @notice Offers the ownership to `newOwner`. Replaces an earlier offer. The zero address
    /// withdraws the offer.
    function offerOwnership(address newOwner) external onlyOwner {
        pendingOwner = newOwner;
        emit OwnershipOffered(msg.sender, newOwner);
    }

    /// @notice Accepts the ownership that was offered to the caller.
    function acceptOwnership() external {
        require(msg.sender == pendingOwner, "Ownable2Step: caller is not the new owner");
        _setOwner(msg.sender);
    }

    /// @notice Transfers the ownership to `newOwner` at once. Warning: a transfer to a wrong
    /// address is irreversible.
    function transferOwnership(address newOwner) external onlyOwner {
        require(newOwner != address(0), "Ownable: new owner is the zero address");
        _setOwner(newOwner);
    }

    /// @notice Renounces the ownership. The contract then has no owner. Warning: this is
    /// irreversible.
    function renounceOwnership() external onlyOwner {
        _setOwner(address(0));
    }

    /// @dev Also withdraws the offer of the previous owner.
    function _setOwner(address newOwner) private {
        delete pendingOwner;
        emit OwnershipTransferred(owner, newOwner);
        owner = newOwner;
    }
}
