// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {JobStatus} from "../Types.sol";

/// @notice Which moves a job may make. The Python table `gridstead.domain.lifecycle` is compared with this one
/// over all pairs of states.
library Lifecycle {
    error InvalidTransition(JobStatus from, JobStatus to);
    error JobHotStatusOnly(JobStatus current);
    error SameStatusError();

    /// @notice Whether the job has ended and its escrow has been paid out.
    function isCold(JobStatus status) internal pure returns (bool) {
        return status >= JobStatus.CANCELLED;
    }

    /// @notice Whether a job may go from `from` to `to` in one step.
    function isLegal(JobStatus from, JobStatus to) internal pure returns (bool) {
        if (from == JobStatus.PENDING) {
            return to == JobStatus.META_SCHEDULED || to == JobStatus.CANCELLED || to == JobStatus.PANICKED;
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

    /// @notice Reverts unless the move is legal, with the most telling error first.
    function check(JobStatus from, JobStatus to) internal pure {
        if (from == to) revert SameStatusError();
        if (isCold(from)) revert JobHotStatusOnly(from);
        if (!isLegal(from, to)) revert InvalidTransition(from, to);
    }
}
