# SPDX-License-Identifier: Apache-2.0
"""What a wallet can ask of the contracts: one frozen value per call, no encoding.

Calls that name a job carry its job key, so that an outbox entry of one history is never taken for
another's.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.billing import Prices
from gridstead.domain.ids import JobKey
from gridstead.domain.job import Hardware, Label
from gridstead.domain.lifecycle import JobState

ANY_PRICE = 2**256 - 1  # the greatest number of the contracts


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Offer this hardware at these prices under these labels."""

    hardware: Hardware
    prices: Prices
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimJobs:
    """Claim up to ``limit`` matched jobs."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCancelling:
    """Take the next entry off the cancelling queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTopUp:
    """Take the next entry off the top-up queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunning:
    """Say that a job started. Unit: ``started_at`` Unix seconds, Slurm's own."""

    job_key: JobKey
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """End a job and divide its lock.

    Attributes:
        job key: The job.
        state: A cold state that its present one may move to.
        seconds: Billed time.
        exit_code: Wait status (code << 8 | signal).
        error: Why, for people; may be empty.
        evidence: 32-byte hash of the accounting record, 0x and 64 hexadecimal digits.
    """

    job_key: JobKey
    state: JobState
    seconds: int
    exit_code: int
    error: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Give a claimed or matched job back."""

    job_key: JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Match a pending job to a provider.

    Attributes:
        job key: The job. provider: Its address. max_price_per_min: The highest price of the whole
        job per minute that the match accepts, wei: a provider may
            change its prices meanwhile. Plain DeepSquare cannot be told.
    """

    job_key: JobKey
    provider: str
    max_price_per_min: int = ANY_PRICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Take a job from a provider that let it lie.

    Attributes:
        job key: The job. state: What it waits in: META_SCHEDULED, SCHEDULED or RUNNING.
        state_block: Since which block. A later wait is another one, which this call must not end:
        plain DeepSquare
            takes a match back whenever it is told to.
    """

    job_key: JobKey
    state: JobState
    state_block: int


Call = (
    Register
    | ClaimJobs
    | ClaimCancelling
    | ClaimTopUp
    | SetRunning
    | Settle
    | Refuse
    | Match
    | Expire
)

# The names under which outboxes store calls and failpoints know them. A released name never
# changes and is never used for another call.
CALL_NAMES: dict[type[Call], str] = {
    Register: "Register",
    ClaimJobs: "ClaimJobs",
    ClaimCancelling: "ClaimCancelling",
    ClaimTopUp: "ClaimTopUp",
    SetRunning: "SetRunning",
    Settle: "Settle",
    Refuse: "Refuse",
    Match: "Match",
    Expire: "Expire",
}


def name_of(call: Call) -> str:
    """Return the stored name of the call's kind."""
    return CALL_NAMES[type(call)]
