// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The numbers that the owner may change, each within bounds.
interface IConstants {
    /// @notice The minimum escrow of a new job, in wei of Credit.
    function minimumAmount() external view returns (uint256);

    /// @notice Retained for existing clients; a cancellation has no fee.
    function cancellationFeeMinute() external view returns (uint256);

    /// @notice Retained for existing clients; a bill is capped at the elapsed time without slack.
    function billDurationDeltaMinute() external view returns (uint256);

    /// @notice The claim timeout: the blocks after which an unclaimed match can be expired.
    function claimJobTimeout() external view returns (uint64);

    /// @notice The minutes that one delegated top-up pays for. It is allowed if at most so many
    /// minutes remain.
    function topUpSliceDurationMin() external view returns (uint64);

    /// @notice The fee, in percent of the cost.
    function deepsquareCut() external view returns (uint256);

    /// @notice The seconds after its claim after which a job that has not started can be expired.
    function startTimeout() external view returns (uint64);

    /// @notice The seconds after its paid time after which an unsettled job can be expired.
    function settleGrace() external view returns (uint64);
}
