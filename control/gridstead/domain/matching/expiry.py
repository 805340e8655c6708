# SPDX-License-Identifier: Apache-2.0
"""Decides when a job is taken from a provider that does not act, and when it may be matched again.

No job may wait without limit for a provider. The contracts end each wait on request, and the
meta-scheduler makes the request:

- If a provider does not claim a match in time, the match expires and the job goes to another
  provider. The first provider gets the job again only if no other provider can run it. After each
  further claim timeout it rests for longer, because each match and each expiry costs a transaction.
- A claimed job that does not start in time, or that is not settled in time after its run, becomes
  PANICKED and its whole escrow is refunded. It is not matched again: only its provider knows
  whether it ran, and only the customer can decide to run it twice.

A provider claims its matches in their order. So while a provider claims other jobs, the time of a
match counts only from the last claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.billing import paid_seconds_ceil
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import JobState

# Added to the contracts' limits, so that a call does not fail on a node that lags by a block or on
# a clock that is slow.
MARGIN_BLOCKS = 2
MARGIN_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the contracts wait for a provider.

    Attributes:
        claim_blocks: Blocks that a match may wait for its claim.
        start_s: Seconds that a claimed job may wait for its start. None if the contracts have no
            such timeout.
        settle_grace_s: Seconds that a job may remain unsettled after its paid time or after a
            request to cancel it. None if the contracts have no such timeout.
    """

    claim_blocks: int
    start_s: int | None = None
    settle_grace_s: int | None = None


def expiry(job: Job, timeouts: Timeouts, *, claimed_at: int | None) -> int | None:
    """Return the last block (META_SCHEDULED) or second (SCHEDULED, RUNNING) that a job may wait.

    Args:
        job: Any job.
        timeouts: The timeouts of the grid.
        claimed_at: When the job was claimed, Unix seconds. Only used while it is SCHEDULED. None if
            this is not known.

    Returns:
        A block or a Unix second. None if the wait has no limit or if the limit is not known.

    Guarantee: equals ``_expiry`` in contracts/src/JobSteps.sol.
    """
    match job.state:
        case JobState.META_SCHEDULED:
            return job.state_block + timeouts.claim_blocks
        case JobState.SCHEDULED if timeouts.start_s is not None and claimed_at is not None:
            return claimed_at + timeouts.start_s
        case JobState.RUNNING if timeouts.settle_grace_s is not None:
            end = job.started_at + paid_seconds_ceil(job.escrow, job.price_per_min)
            if job.cancel_requested:
                end = min(end, job.cancel_requested_at)
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
    """Return whether the wait of a job has expired, with the margin.

    Args:
        job: Any job, as of the newest block.
        head: The newest block.
        timeouts: The timeouts of the grid at the newest block.
        claimed_at: When the job was claimed, Unix seconds. None if it was not, or if this is not
            known.
        last_claim: Height of the last block in which its provider claimed any job. None if it never
            did.
    """
    end = expiry(job, timeouts, claimed_at=claimed_at)
    if end is None:
        return False
    if job.state is JobState.META_SCHEDULED:
        after_last_claim = (last_claim or 0) + timeouts.claim_blocks
        return head.number > max(end, after_last_claim) + MARGIN_BLOCKS
    return head.timestamp > end + MARGIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTimeouts:
    """The claim timeouts of one job at one provider.

    Attributes:
        times: How often a match was not claimed in time.
        block: The height at which the last match expired.
    """

    times: int
    block: int


@dataclass(slots=True)
class ReturnHistory:
    """How one job came back from its providers.

    The contracts emit the same event when a provider refuses a job and when a match expires. If the
    job was claimed before, the provider refused it. Otherwise the match expired.

    Attributes:
        refused: Addresses that claimed the job and then refused it, or lost it after the claim.
        claim_timeouts: The claim timeouts of the job, by address.
        is_claimed: Whether the job is claimed now.
    """

    refused: set[str] = field(default_factory=set)
    claim_timeouts: dict[str, ClaimTimeouts] = field(default_factory=dict)
    is_claimed: bool = False

    def take(self, event: ChainEvent) -> None:
        """Apply an event of the job. Only claims and refusals change anything."""
        if event.kind is ChainEventKind.JOB_CLAIMED:
            self.is_claimed = True
        if event.kind is not ChainEventKind.JOB_REFUSED:
            return
        if self.is_claimed:
            self.refused.add(event.provider)
        else:
            times = self.times().get(event.provider, 0) + 1
            self.claim_timeouts[event.provider] = ClaimTimeouts(times=times, block=event.block)
        self.is_claimed = False

    def times(self) -> Mapping[str, int]:
        """Return the number of claim timeouts of the job, by address."""
        return {address: timeout.times for address, timeout in self.claim_timeouts.items()}

    def resting(self, *, head: Block, timeouts: Timeouts) -> frozenset[str]:
        """Return the addresses that do not get the job yet because of a claim timeout.

        There is no rest after the first claim timeout. After the second the rest is as long as a
        claim may take, after the third twice as long, and so on. So a provider that was away for a
        long time costs few transactions.
        """
        resting = set()
        for address, timeout in self.claim_timeouts.items():
            rest_blocks = (timeout.times - 1) * timeouts.claim_blocks
            if head.number < timeout.block + rest_blocks:
                resting.add(address)
        return frozenset(resting)
