# SPDX-License-Identifier: Apache-2.0
"""What the contracts say has happened, reduced to what services act on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChainEventKind(Enum):
    """The kinds of events that some service acts on."""

    JOB_REQUESTED = "job_requested"  # customer
    JOB_CLAIMED = "job_claimed"  # customer, provider
    JOB_REFUSED = "job_refused"  # provider, customer
    JOB_TRANSITION = "job_transition"
    PROVIDER_CHANGED = (
        "provider_changed"  # provider: waits for approval, approved, removed, banned or unbanned
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainEvent:
    """One event.

    Attributes:
        kind: What happened.
        block: Height.
        index: Position in the block.
        job_number: The job's number; None for events of providers.
        customer: Wallet, lower case; empty if the event does not tell.
        provider: Wallet, lower case; empty if the event does not tell.
    """

    kind: ChainEventKind
    block: int
    index: int
    job_number: int | None = None
    customer: str = ""
    provider: str = ""
