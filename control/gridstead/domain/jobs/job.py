# SPDX-License-Identifier: Apache-2.0
"""The job, the provider and the block, as the chain stores them."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.lifecycle import JobState


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
    """A label that a provider has or that a job requires."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """A condition on a provider's label.

    Attributes:
        key: The key of the label. The value of the label is the left side of the condition.
        operator: One of <, <=, ==, >=, >, !=, in.
        value: The right side of the condition.
    """

    key: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as of one block. A job is "hot" until it is settled.

    Attributes:
        id: The job id.
        state: The state in the contract.
        customer: The wallet that pays, lower case.
        provider: The wallet of the matched provider, lower case. Empty if no provider is matched.
        resources: The requested resources.
        batch_location_hash: The id of the script at the Job Definition service. An untrusted text
            from the customer.
        uses: Labels that a provider must have. May be empty.
        affinity: Conditions on a provider's labels. May be empty.
        escrow: The credits in escrow, including top-ups, wei.
        final_cost: The amount that was paid, wei. 0 while the job is hot.
        price_per_min: The price of one minute of the whole job, wei, fixed at the match. 0 while
            the job is not matched.
        submitted_at: When the customer requested the job, Unix seconds.
        started_at: Unix seconds. 0 if the job has not started.
        ended_at: Unix seconds. 0 while the job is hot.
        state_block: The number of the block of the last transition.
        cancel_requested: Whether the customer requested to cancel the job.
        cancel_requested_at: When the customer requested to cancel the job, Unix seconds. 0 if the
            customer did not.
        bill_until: The time up to which the run of the job is billed, Unix seconds: the time of a
            request to cancel that was made after the claim, before the chain recorded the start.
            None if there is no such request, or if the job is cold.
        name: The customer's name of the job. Untrusted text.
        exit_code: The wait status as in Slurm (code << 8 | signal). 0 while the job is hot.
        last_error: The last error that the provider or the grid reported. May be empty.
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
    bill_until: int | None = None
    name: str = ""
    exit_code: int = 0
    last_error: str = ""

    @property
    def job_key(self) -> JobKey:
        """The job key, which the Slurm job must have as its AdminComment."""
        return JobKey(job_id=self.id, batch_location_hash=self.batch_location_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The nodes of a provider.

    Each tuple has one entry per node. The order of the nodes is the same in all tuples.
    """

    gpus_per_node: tuple[int, ...]
    cpus_per_node: tuple[int, ...]
    memory_per_node_mb: tuple[int, ...]

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self.cpus_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider as of one block.

    Attributes:
        address: The address of the wallet, lower case.
        hardware: The nodes.
        prices: The current prices.
        labels: The labels, sorted by key.
        is_joined: Whether the provider may get jobs. It must be approved and accept jobs, and be
            neither removed nor banned.
        is_waiting: Whether a new record of the provider waits for approval.
        is_banned: Whether the grid has banned the provider.
    """

    address: str
    hardware: Hardware
    prices: Prices
    labels: tuple[Label, ...]
    is_joined: bool
    is_waiting: bool = False
    is_banned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSizes:
    """The number of entries in the queues of a provider on the chain."""

    claimable: int
    cancelling: int
    top_up: int
