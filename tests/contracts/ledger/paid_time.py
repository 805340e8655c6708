# SPDX-License-Identifier: Apache-2.0
"""What the chain tells a provider of the time that a lock pays for; the rest of the arithmetic is
domain.billing's.
"""

from __future__ import annotations

from gridstead.domain.billing import LONGEST_MIN, paid_minutes_floor


def told_minutes_floor(lock: int, price_per_min: int) -> int:
    """Return the minutes that the chain tells a provider of a lock: the whole ones it pays for, at
    most LONGEST_MIN.

    Guarantee: equals ``Billing.minutesDown`` in contracts/src/libraries/Billing.sol for every
        input.
    """
    paid = paid_minutes_floor(lock, price_per_min)
    return LONGEST_MIN if paid is None else min(paid, LONGEST_MIN)
