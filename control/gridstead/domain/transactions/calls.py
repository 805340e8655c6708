# SPDX-License-Identifier: Apache-2.0
"""The calls that a wallet can make to the contracts, as values that are not encoded.

A call about a job carries the job key. A job number is not enough: after a reorg or on a new set of
contracts, the numbers are used again for other jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.jobs.billing import Prices
from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Hardware, Label
from gridstead.domain.jobs.lifecycle import JobState

ANY_PRICE = 2**256 - 1  # the maximum of uint256
MAX_ERROR_BYTES = 64  # of the error text of a settlement, in UTF-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Register a provider's hardware, prices and labels."""

    hardware: Hardware
    prices: Prices
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimJobs:
    """Claim up to ``limit`` matched jobs. The contracts of DeepSquare 1.2 claim one job."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCancelling:
    """Claim entries of the cancelling queue: jobs that were cancelled, panicked or expired.

    The contracts of DeepSquare 1.2 claim one entry.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTopUp:
    """Claim entries of the top-up queue: jobs to which credits were added.

    The contracts of DeepSquare 1.2 claim one entry.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunning:
    """Report that a job started.

    Attributes:
        job_key: The job.
        started_at: The start time from Slurm, Unix seconds.
    """

    job_key: JobKey
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """End a job and divide its escrow.

    Attributes:
        job_key: The job.
        state: The cold state (``lifecycle.py``) that the job enters. The transition must be legal.
        seconds: The run time to bill.
        exit_code: The wait status: ``code << 8 | signal``.
        error: Why the job did not succeed, as a text for people. May be empty. Only the first
            MAX_ERROR_BYTES are sent.
        evidence: The 32-byte hash of Slurm's accounting record, as 0x and 64 hexadecimal digits.
    """

    job_key: JobKey
    state: JobState
    seconds: int
    exit_code: int
    error: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Refuse a claimed or matched job, so that it becomes pending again.

    A claimed job with a request to cancel becomes CANCELLED instead, with a full refund.
    """

    job_key: JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Match a pending job to a provider.

    Attributes:
        job_key: The job.
        provider: The address of the provider.
        max_price_per_min: The highest price that the match accepts, for one minute of the whole
            job, wei. The provider may change its prices before the match is mined. The contracts
            of DeepSquare 1.2, from which Gridstead's contracts are derived, ignore this limit.
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
        state_block: The block at which the job entered this state. If the job has entered the state
            again since then, the sender does not make the call: the contracts of DeepSquare 1.2
            would take back the new match, although the timeout of this match has not expired.
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

# The names of the calls in outboxes and failpoints. A released name never changes and is never used
# for another call.
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


# The prefixes of the keys of outbox entries. The keys are stored, so a released prefix never
# changes.
_KEY_PREFIXES: dict[type[Call], str] = {
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


def job_key_of(call: Call) -> JobKey | None:
    """Return the job key of the call's job. Returns None if the call is not about one job."""
    if isinstance(call, Register | ClaimJobs | ClaimCancelling | ClaimTopUp):
        return None
    return call.job_key


def outbox_key(call: Call) -> str:
    """Return the outbox key of a call about a job, or of a registration.

    Two calls for the same purpose have the same key.
    """
    job_key = job_key_of(call)
    prefix = _KEY_PREFIXES[type(call)]
    return prefix if job_key is None else f"{prefix}:{job_key}"


def claim_outbox_key(call: Call, *, block: int, index: int) -> str:
    """Return the outbox key of a claim.

    Args:
        call: The claim.
        block: The height of the block at which the claim is planned.
        index: The index of the claim among those that are planned at the block.
    """
    return f"{_KEY_PREFIXES[type(call)]}:{block}:{index}"


def is_claim_outbox_key(key: str, call: Call) -> bool:
    """Return whether an outbox key is the key of a claim of this type."""
    return key.startswith(f"{_KEY_PREFIXES[type(call)]}:")


def call_name(call: Call) -> str:
    """Return the stored name of the call's type."""
    return CALL_NAMES[type(call)]
