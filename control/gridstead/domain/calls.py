# SPDX-License-Identifier: Apache-2.0
"""What a wallet can ask of the contracts: one frozen value per call, no encoding.

Calls that name a job carry its proof, so that an outbox entry of one history is never taken for another's.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.billing import Prices
from gridstead.domain.ids import Proof
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

    proof: Proof
    started_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """End a job and divide its lock.

    Attributes:
        proof: The job.
        state: A cold state that its present one may move to.
        seconds: Billed time.
        exit_code: Wait status (code << 8 | signal).
        error: Why, for people; may be empty.
        evidence: 32-byte hash of the accounting record, 0x and 64 hexadecimal digits.
    """

    proof: Proof
    state: JobState
    seconds: int
    exit_code: int
    error: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Give a claimed or matched job back."""

    proof: Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Match a pending job to a provider.

    Attributes:
        proof: The job.
        provider: Its address.
        max_price_per_min: The highest price of the whole job per minute that the match accepts, wei: a provider may
            change its prices meanwhile. Plain DeepSquare cannot be told.
    """

    proof: Proof
    provider: str
    max_price_per_min: int = ANY_PRICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Take a job from a provider that let it lie.

    Attributes:
        proof: The job.
        state: What it waits in: META_SCHEDULED, SCHEDULED or RUNNING.
        state_block: Since which block. A later wait is another one, which this call must not end: plain DeepSquare
            takes a match back whenever it is told to.
    """

    proof: Proof
    state: JobState
    state_block: int


Call = Register | ClaimJobs | ClaimCancelling | ClaimTopUp | SetRunning | Settle | Refuse | Match | Expire
