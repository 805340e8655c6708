// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The numbers that the owner may change, each within bounds.
interface IConstants {
    /// @notice The least lock of a new job, in wei of Credit.
    function minimumAmount() external view returns (uint256);

    /// @notice Kept for its readers; no fee is taken for a cancellation.
    function cancellationFeeMinute() external view returns (uint256);

    /// @notice Kept for its readers; a bill above the elapsed time is capped without any slack.
    function billDurationDeltaMinute() external view returns (uint256);

    /// @notice The blocks after which a matched job that nobody claimed may be expired.
    function claimJobTimeout() external view returns (uint64);

    /// @notice The minutes that one delegated top-up buys, and the remaining minutes from which it is allowed.
    function topUpSliceDurationMin() external view returns (uint64);

    /// @notice The fee, in percent of the cost.
    function deepsquareCut() external view returns (uint256);

    /// @notice The seconds after its claim from which a job that did not start may be expired.
    function startTimeout() external view returns (uint64);

    /// @notice The seconds after its paid time from which a job that was not settled may be expired.
    function settleGrace() external view returns (uint64);
}
