// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The token of account: an ERC-20 of 18 decimals with ERC-2612 permits, minted by its owner.
/// @dev Reverts with the strings of OpenZeppelin 4, because clients know no errors of this contract.
interface ICredit {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    /// @notice Makes `amountWei` new credits for `account`. For the owner only.
    function mint(address account, uint256 amountWei) external;

    /// @notice Moves `amount` from the caller to `to`.
    function transfer(address to, uint256 amount) external returns (bool);

    /// @notice Moves `amount` from `from` to `to` out of the caller's allowance. The greatest allowance never shrinks.
    function transferFrom(address from, address to, uint256 amount) external returns (bool);

    /// @notice Lets `spender` take up to `amount` from the caller.
    function approve(address spender, uint256 amount) external returns (bool);

    /// @notice Raises the allowance of `spender` by `addedValue`.
    function increaseAllowance(address spender, uint256 addedValue) external returns (bool);

    /// @notice Lowers the allowance of `spender` by `subtractedValue`.
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

    /// @notice The number that the next permit of `tokenOwner` must carry.
    function nonces(address tokenOwner) external view returns (uint256);

    /// @notice The domain that a permit is signed for (EIP-712).
    function DOMAIN_SEPARATOR() external view returns (bytes32);

    /// @notice What `spender` may still take from `tokenOwner`.
    function allowance(address tokenOwner, address spender) external view returns (uint256);

    /// @notice What `account` has.
    function balanceOf(address account) external view returns (uint256);

    /// @notice What all accounts have together.
    function totalSupply() external view returns (uint256);
}
