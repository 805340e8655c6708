// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobStatus} from "../Types.sol";

/// @notice The legal transitions of a job. A test compares this table with the Python table
/// `gridstead.domain.jobs.lifecycle` for all pairs of states.
library Lifecycle {
    error InvalidTransition(JobStatus from, JobStatus to);
    error JobHotStatusOnly(JobStatus current);
    error SameStatusError();

    /// @notice Whether the state is cold: the job has ended, and its escrow has been paid out.
    function isCold(JobStatus status) internal pure returns (bool) {
        return status >= JobStatus.CANCELLED;
    }

    /// @notice Whether the transition of a job from `from` to `to` is legal.
    function isLegal(JobStatus from, JobStatus to) internal pure returns (bool) {
        if (from == JobStatus.PENDING) {
            return
                to == JobStatus.META_SCHEDULED || to == JobStatus.CANCELLED
                    || to == JobStatus.PANICKED;
        }
        if (from == JobStatus.META_SCHEDULED) {
            return to == JobStatus.PENDING || to == JobStatus.SCHEDULED || to == JobStatus.CANCELLED
                || to == JobStatus.PANICKED;
        }
        if (from == JobStatus.SCHEDULED) {
            return to == JobStatus.PENDING || to == JobStatus.RUNNING || to == JobStatus.CANCELLED
                || to == JobStatus.FAILED || to == JobStatus.PANICKED;
        }
        return from == JobStatus.RUNNING && isCold(to);
    }

    /// @notice If the transition is illegal, reverts with the most specific error.
    function check(JobStatus from, JobStatus to) internal pure {
        if (from == to) revert SameStatusError();
        if (isCold(from)) revert JobHotStatusOnly(from);
        if (!isLegal(from, to)) revert InvalidTransition(from, to);
    }
}
