// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {OwnershipOffer} from "./access/OwnershipOffer.sol";
import {IConstants} from "./interfaces/IConstants.sol";

/// @notice Implements IConstants; the documentation is in the interface.
contract Constants is IConstants, OwnershipOffer {
    uint256 public constant MAX_CUT = 100;
    uint64 public constant MAX_MINUTES = 5_256_000;
    uint64 public constant MAX_CLAIM_BLOCKS = 1_000_000;
    uint64 public constant MIN_START_TIMEOUT = 4 days;
    uint64 public constant MAX_START_TIMEOUT = 90 days;
    uint64 public constant MIN_SETTLE_GRACE = 4 days;
    uint64 public constant MAX_SETTLE_GRACE = 30 days;

    uint256 public minimumAmount = 100e18;
    uint256 public cancellationFeeMinute = 5;
    uint256 public billDurationDeltaMinute = 15;
    uint256 public deepsquareCut = 20;
    uint64 public claimJobTimeout = 10;
    uint64 public topUpSliceDurationMin = 30;
    uint64 public startTimeout = 7 days;
    uint64 public settleGrace = 7 days;

    event ConstantChanged(string name, uint256 value);

    constructor(address _owner) OwnershipOffer(_owner) {}

    /// @notice Sets minimumAmount: from 1 wei to the largest escrow of a job, 2^128 - 1 wei.
    function setMinimumAmount(uint256 _minimumAmount) external onlyOwner {
        _bound(_minimumAmount, 1, type(uint128).max);
        minimumAmount = _minimumAmount;
        emit ConstantChanged("minimumAmount", _minimumAmount);
    }

    /// @notice Sets cancellationFeeMinute: 0 to the number of minutes in ten years.
    function setCancellationFeeMinute(uint256 _cancellationFeeMinute) external onlyOwner {
        _bound(_cancellationFeeMinute, 0, MAX_MINUTES);
        cancellationFeeMinute = _cancellationFeeMinute;
        emit ConstantChanged("cancellationFeeMinute", _cancellationFeeMinute);
    }

    /// @notice Sets billDurationDeltaMinute: 0 to the number of minutes in ten years.
    function setBillDurationDeltaMinute(uint256 _billDurationDeltaMinute) external onlyOwner {
        _bound(_billDurationDeltaMinute, 0, MAX_MINUTES);
        billDurationDeltaMinute = _billDurationDeltaMinute;
        emit ConstantChanged("billDurationDeltaMinute", _billDurationDeltaMinute);
    }

    /// @notice Sets claimJobTimeout: 1 to a million blocks.
    function setClaimJobTimeout(uint64 _claimJobTimeout) external onlyOwner {
        _bound(_claimJobTimeout, 1, MAX_CLAIM_BLOCKS);
        claimJobTimeout = _claimJobTimeout;
        emit ConstantChanged("claimJobTimeout", _claimJobTimeout);
    }

    /// @notice Sets topUpSliceDurationMin: one minute to ten years.
    function setTopUpSliceDurationMin(uint64 _topUpSliceDurationMin) external onlyOwner {
        _bound(_topUpSliceDurationMin, 1, MAX_MINUTES);
        topUpSliceDurationMin = _topUpSliceDurationMin;
        emit ConstantChanged("topUpSliceDurationMin", _topUpSliceDurationMin);
    }

    /// @notice Sets deepsquareCut: 0 to 100 percent.
    function setDeepsquareCut(uint256 _deepsquareCut) external onlyOwner {
        _bound(_deepsquareCut, 0, MAX_CUT);
        deepsquareCut = _deepsquareCut;
        emit ConstantChanged("deepsquareCut", _deepsquareCut);
    }

    /// @notice Sets startTimeout: 4 to 90 days.
    function setStartTimeout(uint64 _startTimeout) external onlyOwner {
        _bound(_startTimeout, MIN_START_TIMEOUT, MAX_START_TIMEOUT);
        startTimeout = _startTimeout;
        emit ConstantChanged("startTimeout", _startTimeout);
    }

    /// @notice Sets settleGrace: 4 to 30 days. A provider that is offline for less than four days
    /// therefore loses no payment.
    function setSettleGrace(uint64 _settleGrace) external onlyOwner {
        _bound(_settleGrace, MIN_SETTLE_GRACE, MAX_SETTLE_GRACE);
        settleGrace = _settleGrace;
        emit ConstantChanged("settleGrace", _settleGrace);
    }

    function _bound(uint256 value, uint256 minimum, uint256 maximum) private pure {
        require(minimum <= value && value <= maximum, "Constants: value out of bounds");
    }
}
