# SPDX-License-Identifier: Apache-2.0
"""The job, the provider and the block, as the chain tells them."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.billing import Prices, Resources
from gridstead.domain.ids import JobId, JobKey
from gridstead.domain.lifecycle import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of the chain.

    Attributes:
        number: Height.
        hash: 0x and 64 hexadecimal digits.
        timestamp: Unix seconds.
    """

    number: int
    hash: str
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A property of a provider, or one that a job asks for."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """A condition on a provider's label: label value, operator (<, <=, ==, >=, >, !=, in), wanted
    value.
    """

    key: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as one block has it.

    Attributes:
        id: World-wide identity.
        state: Contract state.
        customer: Wallet that pays, lower case.
        provider: Wallet of the matched provider, lower case; empty while there is none.
        resources: What it asks for.
        batch_location_hash: Id of its script at the Job Definition service, as the customer gave
            it: untrusted text.
        uses: Labels that a provider must have. May be empty.
        affinity: Conditions on a provider's labels. May be empty.
        lock: Locked credits, top-ups included, wei.
        final_cost: What was paid, wei; 0 until it is cold.
        price_per_min: What a minute of the whole job costs, wei, fixed at matching; 0 while it is
            not matched.
        submitted_at: Unix seconds.
        started_at: Unix seconds; 0 while it has not started.
        ended_at: Unix seconds; 0 while it is hot.
        state_block: Number of the block of its last change of state.
        cancel_requested: Whether the customer asked to cancel it.
        cancel_requested_at: When, Unix seconds; 0 if never.
        name: The customer's name for it. Untrusted text.
        exit_code: Wait status as Slurm has it (code << 8 | signal); 0 while it is hot.
        last_error: What its provider or the grid said of it. May be empty.
    """

    id: JobId
    state: JobState
    customer: str
    provider: str
    resources: Resources
    batch_location_hash: str
    uses: tuple[Label, ...] = ()
    affinity: tuple[Affinity, ...] = ()
    escrow: int
    final_cost: int = 0
    price_per_min: int = 0
    submitted_at: int
    started_at: int = 0
    ended_at: int = 0
    state_block: int
    cancel_requested: bool = False
    cancel_requested_at: int = 0
    name: str = ""
    exit_code: int = 0
    last_error: str = ""

    @property
    def job_key(self) -> JobKey:
        """What a Slurm job must carry to be this job."""
        return JobKey(job_id=self.id, batch_location_hash=self.batch_location_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A provider's nodes; the tuples have one entry per node, in the same order. Units: memory MB."""

    gpus_per_node: tuple[int, ...]
    cpus_per_node: tuple[int, ...]
    memory_per_node_mb: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.cpus_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider as one block has it.

    Attributes:
        address: Its wallet, lower case.
        hardware: Its nodes.
        prices: Its current prices.
        labels: Sorted by key.
        joined: Approved, not removed, not banned: may get jobs.
        waiting: A record of its waits for approval.
        banned: Shut out by the grid.
    """

    address: str
    hardware: Hardware
    prices: Prices
    labels: tuple[Label, ...]
    joined: bool
    waiting: bool = False
    banned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSizes:
    """How many entries wait in a provider's queues on chain."""

    claimable: int
    cancelling: int
    top_up: int
