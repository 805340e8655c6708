// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Owned1} from "./Access1.sol";

/// @notice The constants of DeepSquare 1.2. They have no bounds.
contract Constants1 is Owned1 {
    uint256 public minimumAmount = 100e18;
    uint256 public cancellationFeeMinute = 5; // Not used by settlements.
    uint256 public billDurationDeltaMinute = 15;
    uint64 public claimJobTimeout = 10;
    uint64 public topUpSliceDurationMin = 30;
    uint256 public deepsquareCut = 20;

    function setMinimumAmount(uint256 _minimumAmount) external onlyOwner {
        minimumAmount = _minimumAmount;
    }

    function setCancellationFeeMinute(uint256 _cancellationFeeMinute) external onlyOwner {
        cancellationFeeMinute = _cancellationFeeMinute;
    }

    function setBillDurationDeltaMinute(uint256 _billDurationDeltaMinute) external onlyOwner {
        billDurationDeltaMinute = _billDurationDeltaMinute;
    }

    function setClaimJobTimeout(uint64 _claimJobTimeout) external onlyOwner {
        claimJobTimeout = _claimJobTimeout;
    }

    function setTopUpSliceDurationMin(uint64 _topUpSliceDurationMin) external onlyOwner {
        topUpSliceDurationMin = _topUpSliceDurationMin;
    }

    function setDeepsquareCut(uint256 _deepsquareCut) external onlyOwner {
        deepsquareCut = _deepsquareCut;
    }
}

/// @notice The token of DeepSquare 1.2: ERC-20 with increaseAllowance and decreaseAllowance, but
/// without permits.
contract Credit1 is Owned1 {
    string public constant name = "Credit";
    string public constant symbol = "CRED";
    uint8 public constant decimals = 18;

    uint256 public totalSupply;
    mapping(address account => uint256) public balanceOf;
    mapping(address holder => mapping(address spender => uint256)) public allowance;

    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Transfer(address indexed from, address indexed to, uint256 value);

    constructor(uint256 _amountWei) {
        _mint(msg.sender, _amountWei);
    }

    function mint(address account, uint256 _amountWei) external onlyOwner {
        _mint(account, _amountWei);
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        return _allow(msg.sender, spender, amount);
    }

    function increaseAllowance(address spender, uint256 addedValue) external returns (bool) {
        return _allow(msg.sender, spender, allowance[msg.sender][spender] + addedValue);
    }

    function decreaseAllowance(address spender, uint256 subtractedValue) external returns (bool) {
        uint256 before = allowance[msg.sender][spender];
        require(before >= subtractedValue, "ERC20: decreased allowance below zero");
        return _allow(msg.sender, spender, before - subtractedValue);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        return _move(msg.sender, to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        uint256 before = allowance[from][msg.sender];
        if (before != type(uint256).max) {
            require(before >= amount, "ERC20: insufficient allowance");
            _allow(from, msg.sender, before - amount);
        }
        return _move(from, to, amount);
    }

    function _mint(address account, uint256 amount) private {
        totalSupply += amount;
        balanceOf[account] += amount;
        emit Transfer(address(0), account, amount);
    }

    function _allow(address holder, address spender, uint256 amount) private returns (bool) {
        allowance[holder][spender] = amount;
        emit Approval(holder, spender, amount);
        return true;
    }

    function _move(address from, address to, uint256 amount) private returns (bool) {
        require(to != address(0), "ERC20: transfer to the zero address");
        require(balanceOf[from] >= amount, "ERC20: transfer amount exceeds balance");
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        emit Transfer(from, to, amount);
        return true;
    }
}
