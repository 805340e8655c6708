# SPDX-License-Identifier: Apache-2.0
"""What a job costs.

Prices are wei of credit per unit and minute, fixed when a job is matched. Time is whole seconds.
Every amount is an integer; the direction of rounding is in the name. The provider is paid for what
ran, so a cost rounds down.
"""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_PER_MINUTE = 60
PERCENT = 100
LONGEST_MIN = (
    10 * 365 * 24 * 60
)  # the longest time a lock buys; stands for "unlimited" when a job is free

# More is refused, so that no product overflows in a contract.
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
    """What a job asks for.

    Attributes:
        gpus: GPUs of the whole job.
        tasks: Processes of the whole job.
        cpus_per_task: CPU threads of each task.
        memory_per_cpu_mb: Memory of each CPU thread, MB (Slurm's MB, 2^20 bytes).
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
        """Whether the contracts take it: something is asked for, and no more than the bounds.

        Guarantee: equals ``Definitions.isValid`` in contracts/src/libraries/Definitions.sol.
        """
        is_something = self.tasks > 0 and self.cpus_per_task > 0 and self.memory_per_cpu_mb > 0
        return (
            is_something
            and self.gpus <= MAX_GPUS
            and self.cpus <= MAX_CPUS
            and self.memory_mb <= MAX_MEMORY_MB
        )


def price_per_minute(resources: Resources, prices: Prices) -> int:
    """Return what a minute of the job costs, wei."""
    cpus = resources.cpus * (
        prices.cpu_per_min + resources.memory_per_cpu_mb * prices.memory_mb_per_min
    )
    return cpus + resources.gpus * prices.gpu_per_min


def cost_floor(seconds: int, price_per_min: int) -> int:
    """Return what so many seconds cost, wei, rounded down: floor(seconds x price per minute / 60).

    Guarantee: equals ``Billing.costDown`` in contracts/src/libraries/Billing.sol for every input.
    """
    return seconds * price_per_min // SECONDS_PER_MINUTE


def paid_seconds_floor(escrow: int, price_per_min: int) -> int | None:
    """Return how many whole seconds the lock pays for, rounded down; None if the job is free."""
    return escrow * SECONDS_PER_MINUTE // price_per_min if price_per_min else None


def paid_minutes_floor(escrow: int, price_per_min: int) -> int | None:
    """Return how many whole minutes the lock pays for, rounded down; None if the job is free."""
    return escrow // price_per_min if price_per_min else None


def paid_seconds_ceil(escrow: int, price_per_min: int) -> int:
    """Return the seconds after which the lock is used up, rounded up, at most those of LONGEST_MIN.

    Up, because a deadline against the provider opens with it. Guarantee: equals
    ``Billing.paidSecondsUp``.
    """
    longest = LONGEST_MIN * SECONDS_PER_MINUTE
    return (
        min(-(-escrow * SECONDS_PER_MINUTE // price_per_min), longest) if price_per_min else longest
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """How a lock is divided. Units: wei. cost = provider + fee, cost + refund = lock."""

    cost: int
    provider: int
    fee: int
    refund: int


def settle(*, escrow: int, seconds: int, price_per_min: int, fee_percent: int) -> Bill:
    """Return how the lock is divided after so many billed seconds; fee and cost round down."""
    cost = min(escrow, cost_floor(seconds, price_per_min))
    fee = cost * fee_percent // PERCENT
    return Bill(cost=cost, provider=cost - fee, fee=fee, refund=escrow - cost)
