# SPDX-License-Identifier: Apache-2.0
"""The calls that a wallet can make to the contracts: one frozen value per call, not encoded.

A call about a job carries its job key. Job numbers start again after a reorg or on a new set of
contracts, so a number alone could name a different job.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Hardware, Label
from gridstead.domain.jobs.lifecycle import JobState

ANY_PRICE = 2**256 - 1  # the maximum of uint256


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Register a provider's hardware, prices and labels."""

    hardware: Hardware
    prices: Prices
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimJobs:
    """Claim up to ``limit`` matched jobs."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCancelling:
    """Claim the next entry of the cancelling queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTopUp:
    """Claim the next entry of the top-up queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunning:
    """Report that a job started. Unit: ``started_at`` Unix seconds, from Slurm."""

    job_key: JobKey
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """End a job and divide its escrow.

    Attributes:
        job_key: The job.
        state: The cold state that the job enters. The transition must be legal.
        seconds: Billed time.
        exit_code: Wait status (code << 8 | signal).
        error: The reason, as text for people. May be empty.
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
    """Refuse a claimed or matched job, so that it becomes pending again."""

    job_key: JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Match a pending job to a provider.

    Attributes:
        job_key: The job.
        provider: The address of the provider.
        max_price_per_min: The highest price that the match accepts, for one minute of the whole
            job, wei. The provider may change its prices before the match is mined. The contracts
            of plain DeepSquare ignore this limit.
    """

    job_key: JobKey
    provider: str
    max_price_per_min: int = ANY_PRICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Take a job back from a provider that let a timeout expire.

    Attributes:
        job_key: The job.
        state: The state whose timeout expired: META_SCHEDULED, SCHEDULED or RUNNING.
        state_block: The block at which the job entered this state. The call must not end a later
            stay in the same state: plain DeepSquare takes a match back at any time.
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

# Outboxes and failpoints name the calls by these words. A released name never changes and is never
# used for another call.
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


# The keys of outbox entries start with these words. They are stored, so a released word never
# changes.
_KEY_WORDS: dict[type[Call], str] = {
    Register: "register",
    ClaimJobs: "claim",
    ClaimCancelling: "claim-cancelling",
    ClaimTopUp: "claim-top-up",
    SetRunning: "running",
    Settle: "settle",
    Refuse: "refuse",
    Match: "match",
    Expire: "expire",
}


def subject(call: Call) -> JobKey | None:
    """Return the job key of the job that a call names. Returns None if the call names no job."""
    if isinstance(call, Register | ClaimJobs | ClaimCancelling | ClaimTopUp):
        return None
    return call.job_key


def key_of(call: Call) -> str:
    """Return the key of the outbox entry of a call about a job, or of a registration.

    Two calls for the same purpose have the same key.
    """
    job_key = subject(call)
    word = _KEY_WORDS[type(call)]
    return word if job_key is None else f"{word}:{job_key}"


def claim_key(call: Call, *, block: int, index: int) -> str:
    """Return the key of the outbox entry of a claim: one of several that are planned at a block."""
    return f"{_KEY_WORDS[type(call)]}:{block}:{index}"


def is_claim_key(key: str, call: Call) -> bool:
    """Return whether a key of an outbox entry is the key of a claim of this kind."""
    return key.startswith(f"{_KEY_WORDS[type(call)]}:")


def name_of(call: Call) -> str:
    """Return the stored name of the kind of a call."""
    return CALL_NAMES[type(call)]
