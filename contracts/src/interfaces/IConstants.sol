// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The constants of a grid. The owner may change each constant within its bounds.
interface IConstants {
    /// @notice The minimum escrow of a new job, in wei of Credit.
    function minimumAmount() external view returns (uint256);

    /// @notice Not used, because a cancellation has no fee. Retained for existing clients.
    function cancellationFeeMinute() external view returns (uint256);

    /// @notice Not used, because a bill is limited to the elapsed time, without a tolerance.
    /// Retained for existing clients.
    function billDurationDeltaMinute() external view returns (uint256);

    /// @notice The claim timeout, in blocks. If the provider has not claimed a job this many blocks
    /// after the match, the match can be expired.
    function claimJobTimeout() external view returns (uint64);

    /// @notice The minutes that one delegated top-up (topUpJobDelegate) pays for. Such a top-up is
    /// allowed if the escrow pays for at most this number of further minutes.
    function topUpSliceDurationMin() external view returns (uint64);

    /// @notice The fee, in percent of the cost.
    function deepsquareCut() external view returns (uint256);

    /// @notice The start timeout, in seconds. If a job has not started this many seconds after its
    /// claim, the job can be expired.
    function startTimeout() external view returns (uint64);

    /// @notice The settlement timeout, in seconds. The timeout of a running job starts at the end
    /// of its paid time, or at an earlier request to cancel the job. If the job is not settled
    /// before the timeout, it can be expired.
    function settleGrace() external view returns (uint64);
}
