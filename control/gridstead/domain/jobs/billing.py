# SPDX-License-Identifier: Apache-2.0
"""Computes the cost of a job.

Prices are in wei of credit per unit and minute. They are fixed when a job is matched. Times are in
whole seconds. All amounts are integers. The suffixes ``_floor`` and ``_ceil`` state the direction
of rounding. The cost is rounded down, so that the provider is paid only for used time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

WEI_PER_CREDIT = 10**18
SECONDS_PER_MINUTE = 60
PERCENT = 100
MAX_PAID_MINUTES = 10 * 365 * 24 * 60  # The limit of a job's paid time. A free job gets this time.

# The contracts refuse higher numbers, to prevent integer overflows.
MAX_GPUS = 1 << 20
MAX_CPUS = 1 << 20
MAX_MEMORY_MB = 1 << 39


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A provider's prices. Units: wei of credit per GPU, per CPU thread, per MB, and minute."""

    gpu_per_min: int
    cpu_per_min: int
    memory_mb_per_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources that a job requests.

    Attributes:
        gpus: GPUs of the whole job.
        tasks: Tasks (processes) of the whole job.
        cpus_per_task: CPU threads per task.
        memory_per_cpu_mb: Memory per CPU thread, MB (2^20 bytes, as in Slurm).
    """

    gpus: int
    tasks: int
    cpus_per_task: int
    memory_per_cpu_mb: int

    @property
    def cpus(self) -> int:
        """CPU threads of the whole job."""
        return self.tasks * self.cpus_per_task

    @property
    def memory_mb(self) -> int:
        """Memory of the whole job, MB."""
        return self.cpus * self.memory_per_cpu_mb

    @property
    def is_valid(self) -> bool:
        """Whether the contracts accept the request.

        A valid request has CPUs and memory, and is within the limits.

        Guarantee: equals ``Definitions.isValid`` in contracts/src/libraries/Definitions.sol.
        """
        has_cpus_and_memory = (
            self.tasks > 0 and self.cpus_per_task > 0 and self.memory_per_cpu_mb > 0
        )
        return (
            has_cpus_and_memory
            and self.gpus <= MAX_GPUS
            and self.cpus <= MAX_CPUS
            and self.memory_mb <= MAX_MEMORY_MB
        )


def price_per_minute(resources: Resources, prices: Prices) -> int:
    """Return the cost of one minute of the whole job, wei."""
    memory_price = resources.memory_per_cpu_mb * prices.memory_mb_per_min
    cpu_cost = resources.cpus * (prices.cpu_per_min + memory_price)
    return cpu_cost + resources.gpus * prices.gpu_per_min


def prices_per_minute(resources: Resources, all_prices: Iterable[Prices]) -> list[int]:
    """Return ``price_per_minute`` for the prices of several providers, wei."""
    cpus, memory_mb, gpus = resources.cpus, resources.memory_mb, resources.gpus
    result = []
    for prices in all_prices:
        cpu_cost = cpus * prices.cpu_per_min + memory_mb * prices.memory_mb_per_min
        result.append(cpu_cost + gpus * prices.gpu_per_min)
    return result


def cost_floor(seconds: int, price_per_min: int) -> int:
    """Return the cost of some seconds, wei, rounded down: floor(seconds x price per minute / 60).

    Guarantee: equals ``Billing.costDown`` in contracts/src/libraries/Billing.sol for every input.
    """
    return seconds * price_per_min // SECONDS_PER_MINUTE


def paid_seconds_floor(escrow: int, price_per_min: int) -> int | None:
    """Return how many seconds an escrow pays for, rounded down. Returns None if the job is free."""
    return escrow * SECONDS_PER_MINUTE // price_per_min if price_per_min else None


def paid_minutes_floor(escrow: int, price_per_min: int) -> int | None:
    """Return how many minutes an escrow pays for, rounded down. Returns None if the job is free."""
    return escrow // price_per_min if price_per_min else None


def paid_seconds_ceil(escrow: int, price_per_min: int) -> int:
    """Return the seconds after which an escrow is used up, rounded up, at most MAX_PAID_MINUTES.

    The provider's time for the settlement starts when the paid time ends. Rounding up the paid time
    gives the provider more time.

    Guarantee: equals ``Billing.paidSecondsUp`` in contracts/src/libraries/Billing.sol.
    """
    max_s = MAX_PAID_MINUTES * SECONDS_PER_MINUTE
    if not price_per_min:
        return max_s
    # The addition rounds the quotient up.
    paid_s = (escrow * SECONDS_PER_MINUTE + price_per_min - 1) // price_per_min
    return min(paid_s, max_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """How an escrow is divided. Units: wei.

    Guarantee: cost = provider + fee, and cost + refund = escrow.
    """

    cost: int
    provider: int
    fee: int
    refund: int


def divide_escrow(*, escrow: int, seconds: int, price_per_min: int, fee_percent: int) -> Bill:
    """Return how an escrow is divided for the billed seconds. Cost and fee are rounded down."""
    cost = min(escrow, cost_floor(seconds, price_per_min))
    fee = cost * fee_percent // PERCENT
    return Bill(cost=cost, provider=cost - fee, fee=fee, refund=escrow - cost)
