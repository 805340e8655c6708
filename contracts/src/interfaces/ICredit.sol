// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The grid's token: ERC-20 with 18 decimals and ERC-2612 permits. Its owner mints credits.
/// @dev Reverts with the strings of OpenZeppelin 4, because the published ABI has no errors for
/// this contract.
interface ICredit {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    /// @notice Mints `amountWei` credits for `account`. Only the owner may call this function.
    function mint(address account, uint256 amountWei) external;

    /// @notice Transfers `amount` from the caller to `to`.
    function transfer(address to, uint256 amount) external returns (bool);

    /// @notice Transfers `amount` from `from` to `to` and reduces the caller's allowance. An
    /// allowance of 2^256 - 1 is unlimited and is not reduced.
    function transferFrom(address from, address to, uint256 amount) external returns (bool);

    /// @notice Sets the allowance of `spender` for the caller's credits to `amount`.
    function approve(address spender, uint256 amount) external returns (bool);

    /// @notice Increases the allowance of `spender` by `addedValue`.
    function increaseAllowance(address spender, uint256 addedValue) external returns (bool);

    /// @notice Decreases the allowance of `spender` by `subtractedValue`.
    function decreaseAllowance(address spender, uint256 subtractedValue) external returns (bool);

    /// @notice Sets the allowance that `tokenOwner` signed for `spender` (ERC-2612).
    function permit(
        address tokenOwner,
        address spender,
        uint256 value,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice The nonce of the next permit of `tokenOwner`.
    function nonces(address tokenOwner) external view returns (uint256);

    /// @notice The domain separator of a permit (EIP-712).
    function DOMAIN_SEPARATOR() external view returns (bytes32);

    /// @notice The allowance of `spender` for the credits of `tokenOwner`.
    function allowance(address tokenOwner, address spender) external view returns (uint256);

    /// @notice The balance of `account`.
    function balanceOf(address account) external view returns (uint256);

    /// @notice The sum of all balances.
    function totalSupply() external view returns (uint256);
}
