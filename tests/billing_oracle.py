# SPDX-License-Identifier: Apache-2.0
"""Computes the expected bill of a job for all tests of billing.

It implements docs/explanation/billing.md independently of the product, from which it imports
nothing. It calculates with exact fractions and rounds each amount once, at the end. Amounts are in
wei, times in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

FEE_PERCENT = 20  # The fee of the grids that tests deploy.


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """How an escrow is divided: cost = provider + fee, escrow = cost + refund."""

    cost: int
    provider: int
    fee: int
    refund: int


def price(resources, prices) -> int:
    """Return the price of one minute of the whole job.

    Args:
        resources: An object with ``gpus``, ``tasks``, ``cpus_per_task``, ``memory_per_cpu_mb``.
        prices: An object with ``gpu_per_min``, ``cpu_per_min``, ``memory_mb_per_min``.
    """
    cpus = resources.tasks * resources.cpus_per_task
    memory_mb = cpus * resources.memory_per_cpu_mb
    cpus_and_memory = cpus * prices.cpu_per_min + memory_mb * prices.memory_mb_per_min
    return cpus_and_memory + resources.gpus * prices.gpu_per_min


def cost(seconds: int, price_per_min: int) -> int:
    """Return the cost of a billed time, rounded down. The cost may exceed the escrow."""
    return floor(Fraction(seconds, 60) * price_per_min)


def fee(paid: int, fee_percent: int = FEE_PERCENT) -> int:
    """Return the grid's share of a cost, rounded down."""
    return floor(paid * Fraction(fee_percent, 100))


def earned(paid: int, fee_percent: int = FEE_PERCENT) -> int:
    """Return the provider's share of a cost: the cost minus the fee."""
    return paid - fee(paid, fee_percent)


def bill(escrow: int, seconds: int, price_per_min: int, fee_percent: int = FEE_PERCENT) -> Bill:
    """Return the bill of a job with this escrow and billed time."""
    paid_wei = min(escrow, cost(seconds, price_per_min))
    return Bill(
        cost=paid_wei,
        provider=earned(paid_wei, fee_percent),
        fee=fee(paid_wei, fee_percent),
        refund=escrow - paid_wei,
    )


def paid_seconds(escrow: int, price_per_min: int) -> int:
    """Return the number of whole seconds that an escrow pays for. The price must not be 0."""
    return floor(Fraction(escrow, price_per_min) * 60)


def billed_seconds(paid: int, price_per_min: int) -> int:
    """Return the smallest number of seconds with this cost. The price must not be 0."""
    return ceil(Fraction(paid, price_per_min) * 60)
