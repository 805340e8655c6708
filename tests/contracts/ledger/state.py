# SPDX-License-Identifier: Apache-2.0
"""What the contracts remember, as plain values: records never change, tables are replaced.

So a copy of the whole state is a copy of a few dictionaries, and a call that fails is undone by
putting it back.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields
from enum import IntEnum

from gridstead.domain.billing import Prices, Resources
from gridstead.domain.lifecycle import JobState

NOBODY = "0x" + "00" * 20
FREE = Prices(gpu_per_min=0, cpu_per_min=0, memory_mb_per_min=0)


class Kind(IntEnum):
    """The three queues of a provider; the numbers are the contract's."""

    CLAIMABLE = 0
    CANCELLING = 1
    TOP_UP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: what was asked, what was locked, where it stands.

    Attributes:
        definition: As it was requested, in the order of the wire.
        resources: What of it the price depends on.
        lock: Everything ever locked, wei.
        pending_top_up: What of the lock its provider was not told of, wei.
        price: Of one minute, wei, fixed by the match; 0 without one.
    """

    id: bytes
    customer: str
    definition: tuple
    resources: Resources
    name: bytes
    lock: int
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
    error: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a provider stands, whatever its machines are."""

    approved: bool = False
    banned: bool = False
    draining: bool = False
    prices: Prices = FREE
    started_jobs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What of a provider somebody must approve; hardware and labels in the order of the wire."""

    hardware: tuple
    labels: tuple
    prices: Prices


@dataclass(frozen=True, slots=True)
class Queue:
    """Everything that was ever put into a queue, and how much of it was taken or skipped."""

    entries: tuple[bytes, ...] = ()
    taken: int = 0

    @property
    def waiting(self) -> tuple[bytes, ...]:
        """The entries that were not taken yet, stale ones included."""
        return self.entries[self.taken :]


@dataclass(slots=True)
class State:
    """All of it. Accounts and contracts are lower-case addresses, except that owners and roles name
    contracts.
    """

    # Credit
    balances: dict[str, int] = field(default_factory=dict)
    allowances: dict[tuple[str, str], int] = field(default_factory=dict)
    permits_used: dict[str, int] = field(default_factory=dict)
    # Owned and Roles
    owners: dict[str, str] = field(default_factory=dict)
    offers: dict[str, str] = field(default_factory=dict)
    members: frozenset[tuple[str, bytes, str]] = frozenset()
    # Constants
    constants: dict[str, int] = field(default_factory=dict)
    # ProviderManager
    standings: dict[str, Standing] = field(default_factory=dict)
    active: dict[str, Profile] = field(default_factory=dict)
    waiting: dict[str, Profile] = field(default_factory=dict)
    listed: tuple[tuple[int, str], ...] = ()
    listed_ever: int = 0
    # JobRepository and ProviderJobQueues
    jobs: dict[bytes, Job] = field(default_factory=dict)
    queues: dict[tuple[Kind, str], Queue] = field(default_factory=dict)
    # MetaScheduler
    fees: int = 0
    takes_jobs: bool = True

    def copy(self) -> State:
        """Return a state that changes independently."""
        return State(**{one.name: copy(getattr(self, one.name)) for one in fields(self)})
