// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The constants of a grid. The owner may change each constant within its bounds.
interface IConstants {
    /// @notice The minimum escrow of a new job, in wei of Credit.
    function minimumAmount() external view returns (uint256);

    /// @notice Retained for existing clients. A cancellation has no fee.
    function cancellationFeeMinute() external view returns (uint256);

    /// @notice Retained for existing clients. A bill is limited to the elapsed time, without a
    /// tolerance.
    function billDurationDeltaMinute() external view returns (uint256);

    /// @notice The claim timeout, in blocks. If the provider has not claimed a job this many blocks
    /// after the match, the match can be expired.
    function claimJobTimeout() external view returns (uint64);

    /// @notice The minutes that one delegated top-up pays for. A delegated top-up is allowed if at
    /// most this number of minutes remains.
    function topUpSliceDurationMin() external view returns (uint64);

    /// @notice The fee, in percent of the cost.
    function deepsquareCut() external view returns (uint256);

    /// @notice The start timeout, in seconds. If a job has not started this many seconds after its
    /// claim, the job can be expired.
    function startTimeout() external view returns (uint64);

    /// @notice The settlement timeout, in seconds. If a running job is not settled this many
    /// seconds after the end of its paid time, or after a request to cancel it, it can be expired.
    function settleGrace() external view returns (uint64);
}
