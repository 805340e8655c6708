# SPDX-License-Identifier: Apache-2.0
"""The storage of the contracts as dictionaries of immutable records.

The model copies the dictionaries before a call and restores them after a refused call.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields
from enum import IntEnum

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.lifecycle import JobState

NOBODY = "0x" + "00" * 20
ZERO_PRICES = Prices(gpu_per_min=0, cpu_per_min=0, memory_mb_per_min=0)


class QueueKind(IntEnum):
    """The three queues of a provider, with the numbers of the contract."""

    CLAIMABLE = 0
    CANCELLING = 1
    TOP_UP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job.

    Attributes:
        definition: The requested definition, in the order of the ABI.
        resources: The resources in the definition, on which the price depends.
        escrow: All credits that were put in escrow for the job, with all top-ups, in wei.
        pending_top_up: The top-ups that its provider has not claimed, in wei.
        price: The price per minute that the match fixed, in wei. It is 0 before the match.
        requested_unstarted: Whether its customer requested to cancel it before its recorded start.
    """

    id: bytes
    customer: str
    definition: tuple
    resources: Resources
    name: bytes
    escrow: int
    delegates: bool
    submitted_at: int
    state_block: int
    state: JobState = JobState.PENDING
    provider: str = NOBODY
    price: int = 0
    pending_top_up: int = 0
    final_cost: int = 0
    claimed_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    cancel_requested_at: int = 0
    cancel_requested: bool = False
    requested_unstarted: bool = False
    error: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The standing of a provider."""

    approved: bool = False
    banned: bool = False
    draining: bool = False
    prices: Prices = ZERO_PRICES
    earlier_prices: Prices = ZERO_PRICES
    raised_at: int = 0
    started_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRecord:
    """The part of a provider's data that needs an approval."""

    hardware: tuple
    labels: tuple
    prices: Prices


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: all entries that were ever appended, and the number of removed entries."""

    entries: tuple[bytes, ...] = ()
    removed: int = 0

    @property
    def waiting(self) -> tuple[bytes, ...]:
        """The entries in the queue, including stale ones."""
        return self.entries[self.removed :]


@dataclass(slots=True)
class State:
    """The state of all contracts.

    Accounts are lower-case addresses. Fields ``owners``, ``offers`` and ``members`` contain names
    of contracts.
    """

    # Credit
    balances: dict[str, int] = field(default_factory=dict)
    allowances: dict[tuple[str, str], int] = field(default_factory=dict)
    permits_used: dict[str, int] = field(default_factory=dict)
    # Owners and roles
    owners: dict[str, str] = field(default_factory=dict)
    offers: dict[str, str] = field(default_factory=dict)
    members: frozenset[tuple[str, bytes, str]] = frozenset()
    # Constants
    constants: dict[str, int] = field(default_factory=dict)
    # ProviderManager
    standings: dict[str, Standing] = field(default_factory=dict)
    active: dict[str, ProviderRecord] = field(default_factory=dict)
    waiting: dict[str, ProviderRecord] = field(default_factory=dict)
    # The list of approved providers (id and address), and the number of ids that it ever used.
    listed: tuple[tuple[int, str], ...] = ()
    listed_ever: int = 0
    # JobRepository and ProviderJobQueues
    jobs: dict[bytes, Job] = field(default_factory=dict)
    queues: dict[tuple[QueueKind, str], Queue] = field(default_factory=dict)
    # MetaScheduler
    fees: int = 0
    is_open: bool = True

    def copy(self) -> State:
        """Return an independent copy."""
        values = {}
        for state_field in fields(self):
            values[state_field.name] = copy(getattr(self, state_field.name))
        return State(**values)
