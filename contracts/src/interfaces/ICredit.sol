// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";

/// @notice The grid's token: ERC-20 with 18 decimals and ERC-2612 permits. Its owner mints credits.
/// @dev OpenZeppelin 4 reverts with strings. Existing clients expect these strings, because the
/// published ABI has no errors for this contract. An allowance of 2^256 - 1 is unlimited and is not
/// reduced.
interface ICredit is IERC20, IERC20Permit {
    /// @notice Mints `amountWei` credits for `account`. Only the owner may call this function.
    function mint(address account, uint256 amountWei) external;
}
