// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Owned} from "./access/Owned.sol";
import {ICredit} from "./interfaces/ICredit.sol";

/// @notice Implements ICredit; the documentation is in the interface.
contract Credit is ICredit, Owned {
    string public constant name = "Credit";
    string public constant symbol = "CRED";
    uint8 public constant decimals = 18;
    bytes32 private constant PERMIT_TYPEHASH = keccak256(
        "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
    );
    bytes32 private constant DOMAIN_TYPEHASH = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    );
    /// @dev Signatures with `s` above half of the curve's order are malleable and are refused.
    uint256 private constant HALF_ORDER =
        0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    uint256 public totalSupply;
    mapping(address account => uint256) public balanceOf;
    mapping(address tokenOwner => mapping(address spender => uint256)) public allowance;
    mapping(address tokenOwner => uint256) public nonces;

    constructor(uint256 _amountWei) {
        _mint(msg.sender, _amountWei);
    }

    /// @inheritdoc ICredit
    function mint(address account, uint256 amountWei) external onlyOwner {
        _mint(account, amountWei);
    }

    /// @inheritdoc ICredit
    function transfer(address to, uint256 amount) external returns (bool) {
        _transfer(msg.sender, to, amount);
        return true;
    }

    /// @inheritdoc ICredit
    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        if (allowed != type(uint256).max) {
            require(allowed >= amount, "ERC20: insufficient allowance");
            _approve(from, msg.sender, allowed - amount);
        }
        _transfer(from, to, amount);
        return true;
    }

    /// @inheritdoc ICredit
    function approve(address spender, uint256 amount) external returns (bool) {
        _approve(msg.sender, spender, amount);
        return true;
    }

    /// @inheritdoc ICredit
    function increaseAllowance(address spender, uint256 addedValue) external returns (bool) {
        _approve(msg.sender, spender, allowance[msg.sender][spender] + addedValue);
        return true;
    }

    /// @inheritdoc ICredit
    function decreaseAllowance(address spender, uint256 subtractedValue) external returns (bool) {
        uint256 allowed = allowance[msg.sender][spender];
        require(allowed >= subtractedValue, "ERC20: decreased allowance below zero");
        _approve(msg.sender, spender, allowed - subtractedValue);
        return true;
    }

    /// @inheritdoc ICredit
    function permit(
        address tokenOwner,
        address spender,
        uint256 value,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        require(block.timestamp <= deadline, "ERC20Permit: expired deadline");
        require(uint256(s) <= HALF_ORDER, "ECDSA: invalid signature 's' value");
        bytes32 message = keccak256(
            abi.encode(PERMIT_TYPEHASH, tokenOwner, spender, value, nonces[tokenOwner]++, deadline)
        );
        address signer = ecrecover(
            keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR(), message)), v, r, s
        );
        require(signer != address(0) && signer == tokenOwner, "ERC20Permit: invalid signature");
        _approve(tokenOwner, spender, value);
    }

    /// @inheritdoc ICredit
    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                DOMAIN_TYPEHASH,
                keccak256(bytes(name)),
                keccak256("1"),
                block.chainid,
                address(this)
            )
        );
    }

    function _mint(address account, uint256 amount) private {
        require(account != address(0), "ERC20: mint to the zero address");
        totalSupply += amount;
        unchecked {
            balanceOf[account] += amount; // The balance is at most totalSupply.
        }
        emit Transfer(address(0), account, amount);
    }

    function _transfer(address from, address to, uint256 amount) private {
        require(from != address(0), "ERC20: transfer from the zero address");
        require(to != address(0), "ERC20: transfer to the zero address");
        uint256 balance = balanceOf[from];
        require(balance >= amount, "ERC20: transfer amount exceeds balance");
        unchecked {
            balanceOf[from] = balance - amount;
            balanceOf[to] += amount; // The balance is at most totalSupply.
        }
        emit Transfer(from, to, amount);
    }

    function _approve(address tokenOwner, address spender, uint256 amount) private {
        require(tokenOwner != address(0), "ERC20: approve from the zero address");
        require(spender != address(0), "ERC20: approve to the zero address");
        allowance[tokenOwner][spender] = amount;
        emit Approval(tokenOwner, spender, amount);
    }
}
