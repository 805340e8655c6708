// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Makes a reentrant call to the grid during a transfer.
interface IInterrupter {
    function interrupt() external;
}

/// @notice The most hostile ERC-20 token that the assumptions of IMetaScheduler allow. For any
/// transfer, the token can return false, revert, or first call its interrupter, which then calls
/// the grid (the contract under test). The token adds up the transfers to and from the grid.
contract HostileToken {
    enum Mood {
        HONEST,
        REFUSING,
        REVERTING,
        INTERRUPTING
    }

    mapping(address account => uint256) public balanceOf;
    mapping(address tokenOwner => mapping(address spender => uint256)) public allowance;

    address private immutable INTERRUPTER;
    address private _grid;
    Mood private _mood;
    /// @notice How many more transfers succeed before the token refuses, reverts or interrupts one.
    uint256 private _honestTransfers;

    /// @notice All credits that were ever transferred to the grid.
    uint256 public sentToGrid;
    /// @notice All credits that were ever transferred from the grid, by recipient.
    mapping(address account => uint256) public sentByGrid;

    constructor() {
        INTERRUPTER = msg.sender;
    }

    function mint(address account, uint256 amount) external {
        balanceOf[account] += amount;
    }

    function watch(address grid) external {
        _grid = grid;
    }

    function setMood(Mood mood, uint256 honestTransfers) external {
        (_mood, _honestTransfers) = (mood, honestTransfers);
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        return _move(msg.sender, to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(allowed >= amount, "HostileToken: allowance");
        if (allowed != type(uint256).max) allowance[from][msg.sender] = allowed - amount;
        return _move(from, to, amount);
    }

    function _move(address from, address to, uint256 amount) private returns (bool) {
        if (_mood != Mood.HONEST && _isHostileNow()) {
            Mood mood = _mood;
            _mood = Mood.HONEST;
            if (mood == Mood.REFUSING) return false;
            require(mood != Mood.REVERTING, "HostileToken: transfer reverted");
            IInterrupter(INTERRUPTER).interrupt();
        }
        require(balanceOf[from] >= amount, "HostileToken: balance");
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        if (to == _grid) sentToGrid += amount;
        if (from == _grid) sentByGrid[to] += amount;
        return true;
    }

    function _isHostileNow() private returns (bool) {
        if (_honestTransfers == 0) return true;
        --_honestTransfers;
        return false;
    }
}
