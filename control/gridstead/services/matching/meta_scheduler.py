# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler matches pending jobs to providers and ends the waits of jobs that time out.

It stores nothing: at each start it reads all events since the first block, to learn which jobs
exist and which providers claimed or refused them. ``domain/matching/expiry.py`` defines the
timeouts.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import structlog

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey, is_batch_location_hash
from gridstead.domain.jobs.job import Block, Job, Provider
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.expiry import ReturnHistory, Timeouts, is_due
from gridstead.domain.matching.matching import Choice, choose
from gridstead.domain.transactions.calls import Expire, Match, key_of
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox
from gridstead.services.chain.follower import Follower

log = structlog.get_logger()


class MetaScheduler:
    """Matches each pending job to the first eligible provider, and expires overdue jobs.

    Args:
        ledger: The chain.
        follower: Reads all events of the chain from the first block on.
        outbox: The outbox of the matcher's wallet.
        confirmations: Blocks on top of a job's end before the job is forgotten, because a reorg may
            take back the end.
    """

    def __init__(
        self, ledger: Ledger, follower: Follower, outbox: Outbox, *, confirmations: int
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._outbox = outbox
        self._confirmations = confirmations
        self._hot: set[JobId] = set()
        # By id and customer: after a reorg the id may belong to another customer's job.
        self._returns: dict[tuple[JobId, str], ReturnHistory] = defaultdict(ReturnHistory)
        self._last_claims: dict[str, int] = {}
        self._times: dict[int, int] = {}
        self._due: set[tuple[JobKey, int]] = set()
        self._providers: set[str] = set()
        self._view_lock = threading.Lock()
        self._states: dict[JobId, JobState] = {}
        self._reasons: dict[JobId, str] = {}

    def tick(self) -> None:
        """Expire overdue jobs and match pending jobs.

        A job without an eligible provider stays pending; the view shows the reason.
        """
        self._follower.tick(self._remember)
        if not self._hot:
            self._show({}, {})
            return
        head = self._ledger.head()
        jobs = self._ledger.jobs(self._hot, at_block=head)
        final = head.number - self._confirmations
        self._forget(job for job in jobs.values() if job.state in COLD and job.state_block <= final)
        timeouts = self._ledger.timeouts(at_block=head)
        self._expire(jobs.values(), head, timeouts)
        pending = [job for job in jobs.values() if job.state is JobState.PENDING]
        reasons = self._match(pending, head, timeouts)
        hot = {job_id: job.state for job_id, job in jobs.items() if job.state not in COLD}
        self._show(hot, reasons)

    def matched(self) -> Mapping[JobId, str]:
        """Return the matched and running jobs, each with the name of its state."""
        names: dict[JobId, str] = {}
        with self._view_lock:
            for job_id, state in self._states.items():
                if state is not JobState.PENDING:
                    names[job_id] = state.name
        return names

    def pending(self) -> Mapping[JobId, str]:
        """Return the pending jobs, each with the reason why it is not matched yet."""
        reasons: dict[JobId, str] = {}
        with self._view_lock:
            for job_id, state in self._states.items():
                if state is JobState.PENDING:
                    reasons[job_id] = self._reasons.get(job_id, "being matched")
        return reasons

    def _remember(self, events: Iterable[ChainEvent]) -> None:
        for event in events:
            if event.kind is ChainEventKind.PROVIDER_CHANGED:
                self._providers.add(event.provider)
            elif event.job_id is not None:
                self._hot.add(event.job_id)
            if event.kind is ChainEventKind.JOB_CLAIMED:
                self._last_claims[event.provider] = event.block
            is_return = event.kind in {ChainEventKind.JOB_CLAIMED, ChainEventKind.JOB_REFUSED}
            if is_return and event.job_id is not None:
                self._returns[event.job_id, event.customer].take(event)

    def _forget(self, ended: Iterable[Job]) -> None:
        for job in ended:
            self._hot.discard(job.id)
            self._returns.pop((job.id, job.customer), None)

    def _expire(self, jobs: Collection[Job], head: Block, timeouts: Timeouts) -> None:
        """Request the expiry of every overdue job. A repeated request has no effect.

        If a call cannot be stored, the next tick tries again; other calls are not delayed.
        """
        due: set[tuple[JobKey, int]] = set()
        for job in jobs:
            if self._is_due(job, head, timeouts) and self._request_expiry(job):
                due.add((job.job_key, job.state_block))
        self._due = due
        waiting = {job.state_block for job in jobs}
        self._times = {block: time for block, time in self._times.items() if block in waiting}

    def _is_due(self, job: Job, head: Block, timeouts: Timeouts) -> bool:
        return is_due(
            job,
            head=head,
            timeouts=timeouts,
            claimed_at=self._claimed_at(job, timeouts),
            last_claim=self._last_claims.get(job.provider),
        )

    def _request_expiry(self, job: Job) -> bool:
        """Store the call and return whether that succeeded; log the first request."""
        state = job.state.name
        call = Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)
        try:
            self._outbox.put(key_of(call), call)
        except GridsteadError as error:
            log.warning("expiry_failed", job_id=job.id, state=state, reason=str(error))
            return False
        if (job.job_key, job.state_block) not in self._due:
            log.warning("expiry_requested", job_id=job.id, state=state, provider=job.provider)
        return True

    def _claimed_at(self, job: Job, timeouts: Timeouts) -> int | None:
        """Return the time of a claim, None if the job is not waiting for its start.

        After a reorg the time may be wrong; then the contracts reject the expiry.
        """
        if job.state is not JobState.SCHEDULED or timeouts.start_s is None:
            return None
        if job.state_block not in self._times:
            block = self._ledger.block(job.state_block)
            if block is None:
                return None
            self._times[job.state_block] = block.timestamp
        return self._times[job.state_block]

    def _match(self, pending: list[Job], head: Block, timeouts: Timeouts) -> dict[JobId, str]:
        """Match the pending jobs and return why jobs were not matched."""
        reasons: dict[JobId, str] = {}
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
                reasons[job.id] = choice.reason
                continue
            match = Match(
                job_key=job.job_key,
                provider=choice.provider,
                max_price_per_min=choice.price_per_min,  # the choice depends on this price
            )
            matches.append(match)
        reasons |= self._put(matches)
        for job_id, reason in reasons.items():
            if self._reasons.get(job_id) != reason:
                log.info("job_unmatched", job_id=job_id, reason=reason)
        return reasons

    def _put(self, matches: Sequence[Match]) -> dict[JobId, str]:
        """Store calls in one write, or one by one if that write fails.

        Return why calls could not be stored.
        """
        calls = [(key_of(call), call) for call in matches]
        reasons: dict[JobId, str] = {}
        try:
            self._outbox.put_all(calls)
        except GridsteadError:
            for key, call in calls:
                try:
                    self._outbox.put(key, call)
                except GridsteadError as error:
                    reasons[call.job_key.job_id] = str(error)
        return reasons

    def _choose(
        self, job: Job, providers: Iterable[Provider], head: Block, timeouts: Timeouts
    ) -> Choice:
        """Return the provider for a job, or why there is none."""
        if not is_batch_location_hash(job.batch_location_hash):  # no provider could ever run it
            return Choice(provider=None, reason="the script id of the job is malformed")
        returns = self._returns.get((job.id, job.customer), ReturnHistory())
        resting = returns.resting(head=head, timeouts=timeouts)
        return choose(
            job,
            providers,
            refused_by=returns.refused,
            claim_timeouts=returns.times(),
            resting=resting,
        )

    def _show(self, states: dict[JobId, JobState], reasons: dict[JobId, str]) -> None:
        with self._view_lock:
            self._states, self._reasons = states, reasons
