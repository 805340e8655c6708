# SPDX-License-Identifier: Apache-2.0
"""The paid minutes in events of the contracts. Module domain.jobs.billing has other formulas."""

from __future__ import annotations

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES, paid_minutes_floor


def emitted_minutes_floor(escrow: int, price_per_min: int) -> int:
    """Return the whole minutes that an escrow pays for, at most MAX_PAID_MINUTES.

    For every input, ``Billing.minutesDown`` in contracts/src/libraries/Billing.sol returns the same
    result.
    """
    paid = paid_minutes_floor(escrow, price_per_min)
    return MAX_PAID_MINUTES if paid is None else min(paid, MAX_PAID_MINUTES)
