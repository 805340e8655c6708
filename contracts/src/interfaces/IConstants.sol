// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The constants of a grid. The owner may change each constant within its bounds.
interface IConstants {
    /// @notice The minimum escrow of a new job, in wei of Credit.
    function minimumAmount() external view returns (uint256);

    /// @notice Retained for existing clients. A cancellation has no fee.
    function cancellationFeeMinute() external view returns (uint256);

    /// @notice Retained for existing clients. A bill is limited to exactly the elapsed time.
    function billDurationDeltaMinute() external view returns (uint256);

    /// @notice The claim timeout: the blocks after which an unclaimed match can be expired.
    function claimJobTimeout() external view returns (uint64);

    /// @notice The minutes that one delegated top-up pays for. A delegated top-up is allowed if at
    /// most this number of minutes remains.
    function topUpSliceDurationMin() external view returns (uint64);

    /// @notice The fee, in percent of the cost.
    function deepsquareCut() external view returns (uint256);

    /// @notice The number of seconds after its claim at which a job that has not started can be
    /// expired.
    function startTimeout() external view returns (uint64);

    /// @notice The number of seconds after its paid time at which an unsettled job can be expired.
    function settleGrace() external view returns (uint64);
}
