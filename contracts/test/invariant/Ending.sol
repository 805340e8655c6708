// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId, JobStatus} from "../../src/Types.sol";
import {Handler} from "./Handler.sol";
import {Witness} from "./Witness.sol";

/// @notice The start and the end of a campaign. It starts with jobs in each hot state. At the end,
/// every job can be ended by its customer, its provider or any account; only fees are left, and the
/// fees can be withdrawn.
contract Ending is Handler {
    /// @notice Creates two jobs in each hot state.
    function open() external {
        vm.warp(1_800_000_000);
        vm.roll(1000);
        for (uint256 i = 0; i < 8; ++i) {
            address provider = providers[i % 3];
            _by(
                customers[i % 3],
                abi.encodeCall(meta.requestNewJob, (_definition(i), 200e18, "job", true))
            );
            JobId id = JobId.wrap(bytes32(i + 1));
            if (i > 1) _by(matcher, abi.encodeCall(meta.metaSchedule, (id, provider)));
            if (i > 3) _by(provider, abi.encodeCall(meta.claimNextJob, ()));
            if (i > 5) {
                _by(provider, abi.encodeCall(meta.setJobRunning, (id, uint64(block.timestamp))));
            }
        }
        (attempts, successes) = (0, 0);
    }

    /// @notice Ends every job and withdraws the fees.
    function end() external {
        for (uint256 id = 1; id <= witness.count(); ++id) {
            _endOne(id);
        }
        (bool ok,) = address(meta).call(abi.encodeCall(meta.withdrawAdmin, (meta.accruedFees())));
        _expect(ok, "the fees can be withdrawn");
    }

    function _endOne(uint256 number) private {
        JobId id = JobId.wrap(bytes32(number));
        Witness.Book memory b = witness.book(number);
        // Every second running job is settled by its provider, even if the provider was removed.
        if (b.status == JobStatus.RUNNING && number % 2 == 0) {
            bytes memory call = abi.encodeCall(meta.settleJob, (id, 5, type(uint64).max, 0, "", 0));
            _expect(_by(b.provider, call), "a provider settles its running job");
        }
        if (b.status == JobStatus.RUNNING && number % 2 == 1) {
            vm.warp(block.timestamp + 11 * 365 days);
        }
        if (b.status == JobStatus.SCHEDULED) {
            vm.warp(block.timestamp + constants.startTimeout() + 1);
        }
        if (b.status == JobStatus.META_SCHEDULED) {
            vm.roll(block.number + constants.claimJobTimeout() + 1);
        }
        if (b.status < JobStatus.CANCELLED && b.status != JobStatus.PENDING) {
            if (b.status != JobStatus.RUNNING || number % 2 == 1) {
                _expect(
                    _by(outsider, abi.encodeCall(meta.expireJob, (id))),
                    "anyone expires what is due"
                );
            }
        }
        if (witness.book(number).status == JobStatus.PENDING) {
            _expect(
                _by(b.customer, abi.encodeCall(meta.cancelJob, (id))),
                "a customer cancels what waits"
            );
        }
        _expect(witness.book(number).status >= JobStatus.CANCELLED, "every escrow ends");
    }
}
