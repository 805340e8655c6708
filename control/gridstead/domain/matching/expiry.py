# SPDX-License-Identifier: Apache-2.0
"""Decides when a job expires at a provider that does not act, and when it may be matched again.

Each job waits for its provider for a limited time. When a limit is exceeded, the meta-scheduler
requests the expiry of the job, and the contracts perform it:

- If a provider does not claim a match in time, the match expires. The job is then matched to the
  eligible provider with the fewest claim timeouts of the job. With each further claim timeout a
  provider is excluded for longer, because each match and each expiry costs a transaction.
- If a claimed job does not start in time, or is not settled in time after its run, it becomes
  PANICKED and its whole escrow is refunded. The job is not matched again: only its provider knows
  whether it ran, and only the customer can decide to run it twice.
- If the customer requested to cancel a claimed job and the provider neither settles nor refuses it
  in time, it becomes CANCELLED instead.

In the contracts, the claim timeout starts at the block of each match. The meta-scheduler also waits
for this timeout after the last claim of the provider: a provider claims its matches in the order in
which they were made, so a match may have to wait until the provider has claimed earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.billing import paid_seconds_ceil
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import JobState

# These margins are added to the limits of the contracts. With them, a call also succeeds on a node
# that lags by a block or whose clock is slow.
MARGIN_BLOCKS = 2
MARGIN_S = 60
NOT_CLAIMED = "did not claim it in time and will be matched again later"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the contracts wait for a provider.

    Attributes:
        claim_blocks: The number of blocks in which a provider must claim a match.
        start_s: The time in which a claimed job must start, seconds. None if the contracts have no
            such timeout.
        settle_grace_s: The time in which a running job must be settled after its paid time has
            ended, and in which a claimed or running job must be ended after its customer requested
            to cancel it, seconds. None if the contracts have no such timeout.
    """

    claim_blocks: int
    start_s: int | None = None
    settle_grace_s: int | None = None


def expiry(job: Job, timeouts: Timeouts, *, claimed_at: int | None) -> int | None:
    """Return the time limit of a job in its current state.

    Args:
        job: Any job.
        timeouts: The timeouts of the grid.
        claimed_at: When the job was claimed, Unix seconds. Used only for a SCHEDULED job. None if
            this is unknown.

    Returns:
        The limit after which the contracts allow the expiry of the job. Until the job expires, the
        provider may still claim, start or settle it. For a META_SCHEDULED job the limit is a block
        number, for a SCHEDULED or RUNNING job it is in Unix seconds. None if there is no limit or
        the limit is unknown.

    Guarantee: equals ``_expiry`` in contracts/src/JobSteps.sol.
    """
    match job.state:
        case JobState.META_SCHEDULED:
            return job.state_block + timeouts.claim_blocks
        case JobState.SCHEDULED if timeouts.start_s is not None and claimed_at is not None:
            return _limit_by_request(job, timeouts, claimed_at + timeouts.start_s)
        case JobState.RUNNING if timeouts.settle_grace_s is not None:
            end = job.started_at + paid_seconds_ceil(job.escrow, job.price_per_min)
            return _limit_by_request(job, timeouts, end + timeouts.settle_grace_s)
        case _:
            return None


def _limit_by_request(job: Job, timeouts: Timeouts, limit: int) -> int:
    """Return the limit, or the earlier time at which a request to cancel the job expires."""
    if not job.cancel_requested or timeouts.settle_grace_s is None:
        return limit
    return min(limit, job.cancel_requested_at + timeouts.settle_grace_s)


def has_expired(
    job: Job,
    *,
    head: Block,
    timeouts: Timeouts,
    claimed_at: int | None = None,
    last_claim_block: int | None = None,
) -> bool:
    """Return whether a job has exceeded its time limit and the margin.

    Args:
        job: Any job, as of the newest block.
        head: The newest block.
        timeouts: The timeouts of the grid at the newest block.
        claimed_at: When the job was claimed, Unix seconds. None if it was not claimed, or if the
            time is unknown.
        last_claim_block: The number of the last block in which the provider of the job claimed any
            job. None if it never claimed a job.
    """
    limit = expiry(job, timeouts, claimed_at=claimed_at)
    if limit is None:
        return False
    if job.state is JobState.META_SCHEDULED:
        limit_after_last_claim = (last_claim_block or 0) + timeouts.claim_blocks
        return head.number > max(limit, limit_after_last_claim) + MARGIN_BLOCKS
    return head.timestamp > limit + MARGIN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTimeouts:
    """The claim timeouts of one job at one provider.

    Attributes:
        count: How often a match was not claimed in time.
        last_block: The number of the block in which the last match expired.
    """

    count: int
    last_block: int


@dataclass(slots=True)
class ReturnHistory:
    """The providers from which one job came back: by a refusal or by a claim timeout.

    The contracts emit the same event when a provider refuses a job and when a match expires. If the
    provider had claimed the job, the event is a refusal. If it had not, the match expired.

    The events are kept until the history is deleted, because a reorg may remove any of them. A job
    has few: a provider that returned it is excluded, or gets it again after more and more blocks.

    Attributes:
        refused_by: The block of the last refusal of each provider that claimed the job and then
            returned it, by address.
        claim_timeouts: The claim timeouts of the job, by the address of the provider.
        is_claimed: Whether the job is claimed now.
    """

    refused_by: dict[str, int] = field(default_factory=dict)
    claim_timeouts: dict[str, ClaimTimeouts] = field(default_factory=dict)
    is_claimed: bool = False
    _events: list[ChainEvent] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether the job was neither claimed nor returned."""
        return not self._events

    @property
    def events(self) -> tuple[ChainEvent, ...]:
        """The events, in the order of the chain."""
        return tuple(self._events)

    def apply(self, event: ChainEvent) -> None:
        """Update the history with the next event of the job, in the order of the chain.

        Only claims and returns have an effect.
        """
        if event.kind not in {ChainEventKind.JOB_CLAIMED, ChainEventKind.JOB_REFUSED}:
            return
        self._events.append(event)
        if event.kind is ChainEventKind.JOB_CLAIMED:
            self.is_claimed = True
            return
        if self.is_claimed:
            self.refused_by[event.provider] = event.block
        else:
            count = self.timeout_counts().get(event.provider, 0) + 1
            self.claim_timeouts[event.provider] = ClaimTimeouts(count=count, last_block=event.block)
        self.is_claimed = False

    def rewind(self, first_block: int) -> None:
        """Forget the events from a block on. Those that still exist are applied again."""
        if self.is_empty or self._events[-1].block < first_block:
            return
        events = [event for event in self._events if event.block < first_block]
        self.refused_by.clear()
        self.claim_timeouts.clear()
        self.is_claimed = False
        self._events.clear()
        for event in events:
            self.apply(event)

    def last_returns(self) -> dict[str, int]:
        """Return the block in which each provider last returned the job, by address."""
        timeouts = self.claim_timeouts.items()
        timeout_blocks = {address: timeout.last_block for address, timeout in timeouts}
        return timeout_blocks | self.refused_by

    def timeout_counts(self) -> Mapping[str, int]:
        """Return the number of claim timeouts of the job, by the address of the provider."""
        return {address: timeouts.count for address, timeouts in self.claim_timeouts.items()}

    def excluded_providers(self, *, head: Block, timeouts: Timeouts) -> dict[str, str]:
        """Return the providers that are excluded now because of claim timeouts.

        The values are the reasons, by address.

        A provider is not excluded after its first claim timeout. After the second timeout it is
        excluded for ``claim_blocks`` blocks, after the third for twice as many, and so on. So
        a provider that is down for a long time causes few transactions.
        """
        reasons: dict[str, str] = {}
        for address, claim_timeouts in self.claim_timeouts.items():
            excluded_blocks = (claim_timeouts.count - 1) * timeouts.claim_blocks
            if head.number < claim_timeouts.last_block + excluded_blocks:
                reasons[address] = NOT_CLAIMED
        return reasons


class ClaimBlocks:
    """The block of the last claim of each provider.

    Older blocks are kept only as far as a reorg may make them the last ones again.

    Args:
        confirmations: After a reorg that may be deeper, all events are delivered again.
    """

    def __init__(self, confirmations: int) -> None:
        self._confirmations = confirmations
        self._blocks: dict[str, list[int]] = {}  # by provider, ascending

    def snapshot(self) -> dict[str, tuple[int, ...]]:
        """Return the blocks that are kept, by provider, ascending."""
        return {provider: tuple(blocks) for provider, blocks in self._blocks.items()}

    def restore(self, snapshot: Mapping[str, tuple[int, ...]]) -> None:
        """Restore the blocks that ``snapshot`` returned."""
        self._blocks = {provider: list(blocks) for provider, blocks in snapshot.items()}

    def add(self, provider: str, block: int) -> None:
        """Add a claim, in the order of the chain."""
        blocks = self._blocks.setdefault(provider, [])
        if self.last(provider) != block:
            blocks.append(block)
        while len(blocks) > 1 and blocks[1] <= block - self._confirmations:
            del blocks[0]

    def rewind(self, first_block: int) -> None:
        """Forget the claims from a block on. Those that still exist are added again."""
        for blocks in self._blocks.values():
            while blocks and blocks[-1] >= first_block:
                del blocks[-1]

    def last(self, provider: str) -> int | None:
        """Return the block of the last claim of a provider. None if it never claimed a job."""
        blocks = self._blocks.get(provider)
        return blocks[-1] if blocks else None
