// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

/// @notice An owner that can also transfer the ownership in two steps: the owner offers it, and the
/// new owner accepts the offer. An offer to a wrong address is harmless, because the owner can
/// replace it.
/// @dev OpenZeppelin's Ownable2Step also has two steps, but its `transferOwnership` only makes an
/// offer. Existing clients and the deployment need a `transferOwnership` that takes effect at once,
/// as in Ownable. The error message is that of Ownable2Step.
abstract contract OwnershipOffer is Ownable {
    /// @notice The account that may accept the ownership; 0 if there is no offer.
    address public pendingOwner;

    event OwnershipOffered(address indexed currentOwner, address indexed newOwner);

    /// @dev Ownable makes the sender of the creation the owner. This sender may be a contract that
    /// only creates contracts, so the ownership moves on at once.
    constructor(address _owner) {
        transferOwnership(_owner);
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
        _transferOwnership(msg.sender);
    }

    /// @dev Every change of the owner withdraws the offer of the previous owner.
    function _transferOwnership(address newOwner) internal override {
        delete pendingOwner;
        super._transferOwnership(newOwner);
    }
}
