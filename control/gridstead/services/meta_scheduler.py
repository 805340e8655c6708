# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler: matches pending jobs to providers, and ends what providers left lying.

The chain is its only memory. It reads all events from the first block at each start: who asked, who
refused, who claimed. The rules of what is left lying, and for how long, are those of
``domain/expiry.py``.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import structlog

from gridstead.domain.calls import Expire, Match
from gridstead.domain.events import ChainEvent, ChainEventKind
from gridstead.domain.expiry import Returns, Timeouts, is_due
from gridstead.domain.ids import JobKey, is_batch_location_hash
from gridstead.domain.job import Block, Job, Provider
from gridstead.domain.lifecycle import COLD, JobState
from gridstead.domain.matching import Choice, choose
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox
from gridstead.services.follower import Follower

log = structlog.get_logger()


class MetaScheduler:
    """Matches each pending job to the first eligible provider, and takes back what providers let
    lie.

    Args:
        ledger: The chain.
        follower: Of all its events, from the first block on.
        outbox: Of the wallet that matches.
        confirmations: Blocks on top of a job's end before it is forgotten: a reorg may undo the
            end.
    """

    def __init__(
        self, ledger: Ledger, follower: Follower, outbox: Outbox, *, confirmations: int
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._outbox = outbox
        self._confirmations = confirmations
        self._hot: set[int] = set()
        # By number and customer: after a reorg the number may be somebody else's job.
        self._returns: dict[tuple[int, str], Returns] = defaultdict(Returns)
        self._last_claims: dict[str, int] = {}
        self._times: dict[int, int] = {}
        self._due: set[tuple[JobKey, int]] = set()
        self._providers: set[str] = set()
        self._view_lock = threading.Lock()
        self._states: dict[int, JobState] = {}
        self._reasons: dict[int, str] = {}

    def tick(self) -> None:
        """End what was left lying and match what can be; the rest stays pending, with a reason in
        the view.
        """
        self._follower.tick(self._remember)
        if not self._hot:
            self._show({}, {})
            return
        head = self._ledger.head()
        jobs = self._ledger.jobs(sorted(self._hot), at_block=head)
        final = head.number - self._confirmations
        self._forget(job for job in jobs.values() if job.state in COLD and job.state_block <= final)
        timeouts = self._ledger.timeouts(at_block=head)
        self._expire(jobs.values(), head, timeouts)
        reasons = self._match(
            [job for job in jobs.values() if job.state is JobState.PENDING], head, timeouts
        )
        self._show({n: j.state for n, j in jobs.items() if j.state not in COLD}, reasons)

    def matched(self) -> Mapping[str, str]:
        """Return the matched and running jobs: 0x and 64 hexadecimal digits to the state's name."""
        with self._view_lock:
            return {
                f"0x{n:064x}": s.name for n, s in self._states.items() if s is not JobState.PENDING
            }

    def pending(self) -> Mapping[str, str]:
        """Return the pending jobs: 0x and 64 hexadecimal digits to why nobody has them yet."""
        with self._view_lock:
            pending = (n for n, s in self._states.items() if s is JobState.PENDING)
            return {f"0x{n:064x}": self._reasons.get(n, "being matched") for n in pending}

    def _remember(self, events: Iterable[ChainEvent]) -> None:
        for event in events:
            if event.kind is ChainEventKind.PROVIDER_CHANGED:
                self._providers.add(event.provider)
            elif event.job_number is not None:
                self._hot.add(event.job_number)
            if event.kind is ChainEventKind.JOB_CLAIMED:
                self._last_claims[event.provider] = event.block
            if (
                event.kind in {ChainEventKind.JOB_CLAIMED, ChainEventKind.JOB_REFUSED}
                and event.job_number is not None
            ):
                self._returns[event.job_number, event.customer].take(event)

    def _forget(self, ended: Iterable[Job]) -> None:
        for job in ended:
            self._hot.discard(job.id.number)
            self._returns.pop((job.id.number, job.customer), None)

    def _expire(self, jobs: Iterable[Job], head: Block, timeouts: Timeouts) -> None:
        """Ask for the end of every wait that is over; asking again while the first call is on its
        way changes nothing.

        A call that cannot be stored keeps no other back: the next tick asks again.
        """
        due: set[tuple[JobKey, int]] = set()
        waiting: set[int] = set()
        for job in jobs:
            waiting.add(job.state_block)
            last_claim = self._last_claims.get(job.provider)
            claimed_at = self._claimed_at(job, timeouts)
            if not is_due(
                job, head=head, timeouts=timeouts, claimed_at=claimed_at, last_claim=last_claim
            ):
                continue
            call = Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)
            try:
                self._outbox.put(f"expire:{job.job_key}", call)
            except GridsteadError as error:
                log.warning(
                    "expiry_failed", job_id=job.id.number, state=job.state.name, reason=str(error)
                )
                continue
            due.add((job.job_key, job.state_block))
            if (job.job_key, job.state_block) not in self._due:
                log.warning(
                    "expiry_requested",
                    job_id=job.id.number,
                    state=job.state.name,
                    provider=job.provider,
                )
        self._due = due
        self._times = {block: time for block, time in self._times.items() if block in waiting}

    def _claimed_at(self, job: Job, timeouts: Timeouts) -> int | None:
        """Return the time of a claim that waits for its start; a reorg may move it, then the
        contracts say no.
        """
        if job.state is not JobState.SCHEDULED or timeouts.start_s is None:
            return None
        if job.state_block not in self._times:
            block = self._ledger.block(job.state_block)
            if block is None:
                return None
            self._times[job.state_block] = block.timestamp
        return self._times[job.state_block]

    def _match(self, pending: list[Job], head: Block, timeouts: Timeouts) -> dict[int, str]:
        reasons: dict[int, str] = {}
        if not pending:
            return reasons
        providers = self._ledger.providers(sorted(self._providers), at_block=head)
        matches: list[Match] = []
        for job in pending:
            try:
                choice = self._choose(job, providers.values(), head, timeouts)
            except GridsteadError as error:
                choice = Choice(provider=None, reason=str(error))
            if choice.provider is None:
                reasons[job.id.number] = choice.reason
                continue
            # At no more than the price that the provider was chosen for.
            price = choice.price_per_min
            matches.append(
                Match(job_key=job.job_key, provider=choice.provider, max_price_per_min=price)
            )
        reasons |= self._put(matches)
        for number, reason in reasons.items():
            if self._reasons.get(number) != reason:
                log.info("job_unmatched", job_id=number, reason=reason)
        return reasons

    def _put(self, matches: Sequence[Match]) -> dict[int, str]:
        """Store calls in one write, or one by one if that fails; return by number why one cannot be
        stored.
        """
        calls = [(f"match:{call.job_key}", call) for call in matches]
        reasons: dict[int, str] = {}
        try:
            self._outbox.put_all(calls)
        except GridsteadError:
            for key, call in calls:
                try:
                    self._outbox.put(key, call)
                except GridsteadError as error:
                    reasons[call.job_key.job_id.number] = str(error)
        return reasons

    def _choose(
        self, job: Job, providers: Iterable[Provider], head: Block, timeouts: Timeouts
    ) -> Choice:
        """Return who gets the job; without a script's id no provider could ever run it."""
        if not is_batch_location_hash(job.batch_location_hash):
            return Choice(provider=None, reason="the id of its script is malformed")
        returns = self._returns.get((job.id.number, job.customer), Returns())
        resting = returns.resting(head=head, timeouts=timeouts)
        return choose(
            job,
            providers,
            refused_by=returns.refused,
            claim_timeouts=returns.times(),
            resting=resting,
        )

    def _show(self, states: dict[int, JobState], reasons: dict[int, str]) -> None:
        with self._view_lock:
            self._states, self._reasons = states, reasons
