# SPDX-License-Identifier: Apache-2.0
"""What a provider left lying: when a job is taken from it, and what that means for its next match.

No job may wait for ever for somebody who is away. The contracts end each wait when somebody asks
them to; the
meta-scheduler asks. What a customer sees of it:

- A match that its provider does not claim is taken back, so the job goes to another provider. The
  one that let it lie is asked again only when nobody else can take the job: perhaps it is back, and
  an answer late is better than none. Each further time it rests for longer, as every match and
  every end of one costs a transaction.
- A claimed job that does not start, and one that ran and is not settled, end PANICKED and refund
  the whole lock. They are not matched again: whether the job ran, only its provider knows, and to
  run it twice is the customer's choice.

A provider that works through its queue is not away. Claims come in the order of the matches, so a
match counts as lying from its provider's last claim on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.billing import paid_seconds_ceil
from gridstead.domain.events import ChainEvent, ChainEventKind
from gridstead.domain.job import Block, Job
from gridstead.domain.lifecycle import JobState

# Beyond what the contracts ask for, so that a call never meets a node that lags by a block or a
# clock that is behind.
MARGIN_BLOCKS = 2
MARGIN_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a grid waits for its providers.

    Attributes:
        claim_blocks: Blocks that a match may wait for its claim.
        start_s: Seconds that a claimed job may wait for its start; None on contracts that do not
            end it.
        settle_grace_s: Seconds that a run may stay unsettled beyond its paid time or a request to
            cancel it; None on contracts that do not end it.
    """

    claim_blocks: int
    start_s: int | None = None
    settle_grace_s: int | None = None


def expiry(job: Job, timeouts: Timeouts, *, claimed_at: int | None) -> int | None:
    """Return after which block (META_SCHEDULED) or Unix second (SCHEDULED, RUNNING) a job is over.

    Args:
        job: Any job.
        timeouts: The grid's.
        claimed_at: Time of its claim, Unix seconds; of meaning only while it is SCHEDULED. None if
            it is not known.

    Returns:
        The last block or second at which the job may still wait; None if its wait has no end, or
        none that is known.

    Guarantee: equals ``_expiry`` in contracts/src/JobSteps.sol.
    """
    match job.state:
        case JobState.META_SCHEDULED:
            return job.state_block + timeouts.claim_blocks
        case JobState.SCHEDULED if timeouts.start_s is not None and claimed_at is not None:
            return claimed_at + timeouts.start_s
        case JobState.RUNNING if timeouts.settle_grace_s is not None:
            paid_end = job.started_at + paid_seconds_ceil(job.escrow, job.price_per_min)
            end = min(paid_end, job.cancel_requested_at) if job.cancel_requested else paid_end
            return end + timeouts.settle_grace_s
        case _:
            return None


def is_due(
    job: Job,
    *,
    head: Block,
    timeouts: Timeouts,
    claimed_at: int | None = None,
    last_claim: int | None = None,
) -> bool:
    """Return whether it is time to take a job from its provider: its wait is over, by the margin.

    Args:
        job: Any job, as the newest block has it.
        head: The newest block.
        timeouts: The grid's, at that block.
        claimed_at: Time of the job's claim, Unix seconds; None if it has none or it is not known.
        last_claim: Height of the last block in which its provider claimed any job; None if it never
            did.
    """
    end = expiry(job, timeouts, claimed_at=claimed_at)
    if end is None:
        return False
    if job.state is JobState.META_SCHEDULED:
        return head.number > max(end, (last_claim or 0) + timeouts.claim_blocks) + MARGIN_BLOCKS
    return head.timestamp > end + MARGIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTimeouts:
    """How often a provider let a match of one job lie, and the height at which it was taken back
    last.
    """

    times: int
    block: int


@dataclass(slots=True)
class Returns:
    """How one job came back from its providers.

    The contracts tell with the same event that a provider refused and that a match was taken from
    it. A refusal is an answer: the provider had claimed the job. Whoever never claimed it gave
    none.

    Attributes:
        refused: Addresses that claimed the job and gave it back, or lost it.
        lapses: By address, of those that did not claim it.
        is_claimed: Whether the job is claimed now.
    """

    refused: set[str] = field(default_factory=set)
    claim_timeouts: dict[str, ClaimTimeouts] = field(default_factory=dict)
    is_claimed: bool = False

    def take(self, event: ChainEvent) -> None:
        """Remember an event of the job; other events than claims and refusals mean nothing here."""
        if event.kind is ChainEventKind.JOB_CLAIMED:
            self.is_claimed = True
        if event.kind is not ChainEventKind.JOB_REFUSED:
            return
        if self.is_claimed:
            self.refused.add(event.provider)
        else:
            before = self.claim_timeouts.get(event.provider)
            self.claim_timeouts[event.provider] = ClaimTimeouts(
                times=before.times + 1 if before else 1, block=event.block
            )
        self.is_claimed = False

    def times(self) -> Mapping[str, int]:
        """Return by address how often providers let a match of the job lie."""
        return {
            address: claim_timeout.times for address, claim_timeout in self.claim_timeouts.items()
        }

    def resting(self, *, head: Block, timeouts: Timeouts) -> frozenset[str]:
        """Return the addresses that are not asked again yet.

        After the first time there is no rest, after the second it is as long as a claim may take,
        after the third twice that: a provider that was away for long waits a little longer for its
        jobs, and costs few transactions.
        """
        return frozenset(
            address
            for address, claim_timeout in self.claim_timeouts.items()
            if head.number < claim_timeout.block + (claim_timeout.times - 1) * timeouts.claim_blocks
        )
