# SPDX-License-Identifier: Apache-2.0
"""The events of the contracts, reduced to what the services need."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.lifecycle import JobState


class ChainEventKind(Enum):
    """The kinds of events that a service uses, and the optional fields that they have."""

    JOB_REQUESTED = "job_requested"  # customer
    JOB_CLAIMED = "job_claimed"  # customer, provider
    JOB_REFUSED = "job_refused"  # customer, provider
    JOB_TRANSITION = "job_transition"  # state
    JOB_TOPPED_UP = "job_topped_up"  # amount; not on DeepSquare 1.2
    JOB_CANCEL_REQUESTED = "job_cancel_requested"  # not on DeepSquare 1.2
    PROVIDER_APPROVED = "provider_approved"  # provider
    # The grid removed, banned or unbanned a provider, or the provider changed its prices, or it
    # stopped or resumed accepting jobs.
    PROVIDER_CHANGED = "provider_changed"  # provider
    CREDITS_TRANSFERRED = "credits_transferred"  # sender, receiver, amount
    SCHEDULER_ADDED = "scheduler_added"  # scheduler
    SCHEDULER_REMOVED = "scheduler_removed"  # scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEvent:
    """An event of the contracts.

    Attributes:
        kind: The kind of the event.
        block: The height of the event's block.
        index: The position of the event in its block.
        job_id: The job. None for events that are not about a job.
        customer: The customer's wallet, lower case. Empty if the event does not have it.
        provider: The provider's wallet, lower case. Empty if the event does not have it.
        state: The new state of the job. None if the event does not have it.
        sender: The wallet or contract that paid, lower case. Empty if the event does not have it.
        receiver: The wallet or contract that was paid, lower case. Empty if the event does not have
            it.
        scheduler: The wallet that received or lost the role of a meta-scheduler, lower case. Empty
            if the event does not have it.
        amount: The credits that were transferred or added to an escrow, wei.
    """

    kind: ChainEventKind
    block: int
    index: int
    job_id: JobId | None = None
    customer: str = ""
    provider: str = ""
    state: JobState | None = None
    sender: str = ""
    receiver: str = ""
    amount: int = 0
    scheduler: str = ""
