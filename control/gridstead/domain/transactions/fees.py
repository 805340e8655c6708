# SPDX-License-Identifier: Apache-2.0
"""The fees that the transactions of a wallet offer (EIP-1559).

Services and commands use the same rules, so that transactions of both can follow each other, and
replace each other, in the pool of a node.
"""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.domain.transactions.outbox import Fees

# Limits of the tip, wei per gas. Some nodes refuse a lower tip. The upper limit bounds the loss of
# a wallet if a node suggests too much.
LEAST_TIP = 1_000_000
MOST_TIP = 10**12


def new_fees(base_fee: int, suggested_tip: int) -> Fees:
    """Return the fees that a new transaction should offer.

    The max fee is twice the base fee plus the tip. A full block raises the base fee by an eighth,
    so the max fee still suffices after five full blocks.

    Args:
        base_fee: The base fee of the newest block. Unit: wei per gas.
        suggested_tip: The tip that the node suggests, wei per gas. 0 if it suggests none.
    """
    tip = min(max(LEAST_TIP, suggested_tip), MOST_TIP)
    return Fees(max_fee=2 * base_fee + tip, tip=tip)


def raised_fees(fees: Fees) -> Fees:
    """Return the fees that a node requires for a replacement: an eighth more, rounded up."""
    return Fees(max_fee=fees.max_fee + fees.max_fee // 8 + 1, tip=fees.tip + fees.tip // 8 + 1)


def replacement_fees(earlier: Iterable[Fees], current: Fees) -> Fees:
    """Return the fees that a transaction must offer to replace earlier ones with its nonce.

    Args:
        earlier: The fees of the earlier transactions. Without them, the result is ``current``.
        current: The fees that a new transaction should offer.
    """
    max_fee, tip = current.max_fee, current.tip
    for required_fees in map(raised_fees, earlier):
        max_fee, tip = max(max_fee, required_fees.max_fee), max(tip, required_fees.tip)
    return Fees(max_fee=max_fee, tip=tip)


def suffices(fees: Fees, current: Fees) -> bool:
    """Return whether the next block can include a transaction with these fees.

    The block requires the base fee plus the tip. The max fee of ``current`` is twice the base fee
    plus the tip, so this sum is the mean of the max fee and the tip of ``current``.
    """
    return fees.max_fee >= (current.max_fee + current.tip) // 2
