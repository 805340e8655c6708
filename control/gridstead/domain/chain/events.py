# SPDX-License-Identifier: Apache-2.0
"""The events of the contracts, reduced to what the services need."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gridstead.domain.jobs.ids import JobId


class ChainEventKind(Enum):
    """The kinds of events that a service uses, and the optional fields that they have."""

    JOB_REQUESTED = "job_requested"  # customer
    JOB_CLAIMED = "job_claimed"  # customer, provider
    JOB_REFUSED = "job_refused"  # customer, provider
    JOB_TRANSITION = "job_transition"  # no optional field
    PROVIDER_APPROVED = "provider_approved"  # provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEvent:
    """An event of the contracts.

    Attributes:
        kind: The kind of the event.
        block: The height of the event's block.
        index: The position of the event in the block.
        job_id: The job. None for events of providers.
        customer: The customer's wallet, lower case. Empty if the event does not have it.
        provider: The provider's wallet, lower case. Empty if the event does not have it.
    """

    kind: ChainEventKind
    block: int
    index: int
    job_id: JobId | None = None
    customer: str = ""
    provider: str = ""
