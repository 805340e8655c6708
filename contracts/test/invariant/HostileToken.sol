// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface IInterrupter {
    function interrupt() external;
}

/// @notice The most hostile ERC-20 that the assumptions of IMetaScheduler allow. It can refuse or
/// revert any transfer, and before a transfer it can call another account, which calls the grid
/// again. It counts the grid's transfers.
contract HostileToken {
    enum Mood {
        HONEST,
        REFUSING,
        REVERTING,
        INTERRUPTING
    }

    mapping(address account => uint256) public balanceOf;
    mapping(address tokenOwner => mapping(address spender => uint256)) public allowance;

    address private immutable MAKER;
    address private _grid;
    Mood private _mood;
    /// @notice How many transfers succeed before the hostile behaviour starts.
    uint256 private _patience;

    /// @notice All credits that were ever transferred to the grid, and from the grid by recipient.
    uint256 public pulled;
    mapping(address account => uint256) public received;

    constructor() {
        MAKER = msg.sender;
    }

    function mint(address account, uint256 amount) external {
        balanceOf[account] += amount;
    }

    function watch(address grid) external {
        _grid = grid;
    }

    function plan(Mood mood, uint256 patience) external {
        (_mood, _patience) = (mood, patience);
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
        if (_mood != Mood.HONEST && _isDue()) {
            Mood mood = _mood;
            _mood = Mood.HONEST;
            if (mood == Mood.REFUSING) return false;
            require(mood != Mood.REVERTING, "HostileToken: no");
            IInterrupter(MAKER).interrupt();
        }
        require(balanceOf[from] >= amount, "HostileToken: balance");
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        if (to == _grid) pulled += amount;
        if (from == _grid) received[to] += amount;
        return true;
    }

    function _isDue() private returns (bool) {
        if (_patience == 0) return true;
        --_patience;
        return false;
    }
}
