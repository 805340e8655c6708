// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The cost of a job. The cost and the fee are rounded down, so the customer never pays
/// more than the exact cost. The provider receives the cost minus the fee, and the customer
/// receives the escrow minus the cost. Therefore the three shares (customer, provider, fee) add up
/// to the escrow.
/// @dev No product overflows, because a price per minute is below 2^96 (Definitions.sol) and a time
/// is below 2^64.
library Billing {
    /// @notice The maximum time that an escrow pays for: ten years. At a price of 0, every escrow
    /// pays for ten years.
    uint64 internal constant MAX_MINUTES = 5_256_000;
    uint256 private constant SECONDS_PER_MINUTE = 60;
    uint256 private constant PERCENT = 100;

    /// @notice The cost of `time` seconds at a price per minute.
    function costDown(uint256 time, uint256 pricePerMinute) internal pure returns (uint256) {
        return time * pricePerMinute / SECONDS_PER_MINUTE;
    }

    /// @notice The fee: `cutPercent` percent of a cost. The provider receives the rest.
    function feeDown(uint256 cost, uint256 cutPercent) internal pure returns (uint256) {
        return cost * cutPercent / PERCENT;
    }

    /// @notice The whole minutes that an amount pays for, at most MAX_MINUTES.
    function minutesDown(uint256 amount, uint256 pricePerMinute) internal pure returns (uint64) {
        if (pricePerMinute == 0) return MAX_MINUTES;
        uint256 bought = amount / pricePerMinute;
        return bought > MAX_MINUTES ? MAX_MINUTES : uint64(bought);
    }

    /// @notice The seconds that an amount pays for, rounded up, at most MAX_MINUTES.
    /// @dev The result is only used for a deadline of the provider. It is rounded up in favour of
    /// the provider.
    function paidSecondsUp(uint256 amount, uint256 pricePerMinute) internal pure returns (uint256) {
        uint256 longest = MAX_MINUTES * SECONDS_PER_MINUTE;
        if (pricePerMinute == 0) return longest;
        uint256 paid = (amount * SECONDS_PER_MINUTE + pricePerMinute - 1) / pricePerMinute;
        return paid > longest ? longest : paid;
    }
}
