// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobId, JobStatus} from "../../src/Types.sol";
import {Handler} from "./Handler.sol";
import {Witness} from "./Witness.sol";

/// @notice The start and the end of a campaign. A campaign starts with two jobs in each hot state
/// (a state of a job that has not ended), and with four jobs whose customers requested to cancel
/// them before their start. At the end, each job is ended by its customer, by its provider or by
/// any account. Then the admin withdraws the fees.
contract Ending is Handler {
    /// @notice Creates two jobs in each hot state, and four jobs with a request to cancel.
    function createJobs() external {
        vm.warp(1_800_000_000);
        vm.roll(1000);
        for (uint256 i = 0; i < 12; ++i) {
            address provider = providers[i % 3];
            _callAs(
                customers[i % 3],
                abi.encodeCall(meta.requestNewJob, (_definition(i), 200e18, "job", true))
            );
            JobId id = JobId.wrap(bytes32(i + 1));
            // The jobs with i = 0 and 1 stay PENDING, 2 and 3 META_SCHEDULED. The jobs with i = 6
            // and 7 become RUNNING, the others SCHEDULED.
            if (i > 1) _callAs(matcher, abi.encodeCall(meta.metaSchedule, (id, provider)));
            if (i > 3) _callAs(provider, abi.encodeCall(meta.claimNextJob, ()));
            if (i == 6 || i == 7) _start(i);
        }
        vm.warp(block.timestamp + 1 hours);
        for (uint256 i = 8; i < 12; ++i) {
            bytes memory call = abi.encodeCall(meta.cancelJob, (JobId.wrap(bytes32(i + 1))));
            _callAs(customers[i % 3], call);
            if (i > 9) _start(i);
        }
        (attempts, successes) = (0, 0); // The campaign does not count these calls.
    }

    /// @dev Reports that a job started at its claim.
    function _start(uint256 i) private {
        bytes memory call = abi.encodeCall(meta.setJobRunning, (JobId.wrap(bytes32(i + 1)), 0));
        _callAs(providers[i % 3], call);
    }

    /// @notice Ends every job and withdraws the fees.
    function endAllJobs() external {
        for (uint256 id = 1; id <= witness.count(); ++id) {
            _endJob(id);
        }
        (bool ok,) = address(meta).call(abi.encodeCall(meta.withdrawAdmin, (meta.accruedFees())));
        _expect(ok, "the fees can be withdrawn");
    }

    function _endJob(uint256 number) private {
        JobId id = JobId.wrap(bytes32(number));
        Witness.JobRecord memory job = witness.jobRecord(number);
        bool isRunning = job.status == JobStatus.RUNNING;
        // Every second running job is settled by its provider, even if the provider was removed.
        bool isSettled = isRunning && number % 2 == 0;
        if (isSettled) {
            bytes memory call = abi.encodeCall(meta.settleJob, (id, 5, type(uint64).max, 0, "", 0));
            _expect(_callAs(job.provider, call), "a provider settles its running job");
        }
        if (isRunning && !isSettled) {
            vm.warp(block.timestamp + 11 * 365 days); // An escrow pays for at most ten years.
        }
        if (job.status == JobStatus.SCHEDULED) {
            vm.warp(block.timestamp + constants.startTimeout() + 1);
        }
        if (job.status == JobStatus.META_SCHEDULED) {
            vm.roll(block.number + constants.claimJobTimeout() + 1);
        }
        bool isHot = job.status < JobStatus.CANCELLED;
        if (isHot && job.status != JobStatus.PENDING && !isSettled) {
            _expect(
                _callAs(outsider, abi.encodeCall(meta.expireJob, (id))),
                "any account expires a job after its timeout"
            );
        }
        // An expired match is PENDING again.
        if (witness.jobRecord(number).status == JobStatus.PENDING) {
            _expect(
                _callAs(job.customer, abi.encodeCall(meta.cancelJob, (id))),
                "a customer cancels its pending job"
            );
        }
        _expect(witness.jobRecord(number).status >= JobStatus.CANCELLED, "every job can be ended");
    }
}
