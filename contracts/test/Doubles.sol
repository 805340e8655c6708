// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {MetaScheduler} from "../src/MetaScheduler.sol";
import {JobDefinition, JobId} from "../src/Types.sol";

/// @notice A token that can call a contract during the next transfer, and can refuse transfers.
contract CallingToken {
    mapping(address account => uint256) public balanceOf;
    bool public isRefusing;
    /// @notice Whether the last callback succeeded.
    bool public callSucceeded;
    address private _target;
    bytes private _call;

    function mint(address account, uint256 amount) external {
        balanceOf[account] += amount;
    }

    function setRefusing(bool isRefusing_) external {
        isRefusing = isRefusing_;
    }

    /// @notice Makes the next transfer call `target` with data `call`.
    function callDuringNextTransfer(address target, bytes calldata call) external {
        (_target, _call) = (target, call);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        return _move(msg.sender, to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        return _move(from, to, amount);
    }

    function _move(address from, address to, uint256 amount) private returns (bool) {
        if (isRefusing) return false;
        address target = _target;
        _target = address(0);
        if (target != address(0)) {
            (callSucceeded,) = target.call(_call);
        }
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        return true;
    }
}

/// @notice A customer that is a contract. The token can call it during a transfer.
contract Customer {
    MetaScheduler private immutable META;

    constructor(MetaScheduler meta) {
        META = meta;
    }

    function request(JobDefinition calldata definition, uint256 escrow) external returns (JobId) {
        return META.requestNewJob(definition, escrow, "job", false);
    }

    function cancel(JobId jobId) external {
        META.cancelJob(jobId);
    }
}
