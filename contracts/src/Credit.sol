// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

import {OwnershipOffer} from "./access/OwnershipOffer.sol";
import {ICredit} from "./interfaces/ICredit.sol";

/// @notice Implements ICredit; the documentation is in the interface.
/// @dev OpenZeppelin implements the token. Its ERC20 has no function that mints for an account, so
/// `mint` is our own.
contract Credit is ICredit, ERC20Permit, OwnershipOffer {
    constructor(address _owner, address _receiver, uint256 _amountWei)
        ERC20("Credit", "CRED")
        ERC20Permit("Credit")
        OwnershipOffer(_owner)
    {
        _mint(_receiver, _amountWei);
    }

    /// @inheritdoc ICredit
    function mint(address account, uint256 amountWei) external onlyOwner {
        _mint(account, amountWei);
    }
}
