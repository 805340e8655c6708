# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler matches pending jobs to providers and expires jobs that time out.

The meta-scheduler stores only its outbox. At each start it reads all events since the first block.
The events show the jobs, and the providers that claimed or refused the jobs. ``SkippedMatches``
remembers the skipped matches until the service stops.
``domain/matching/expiry.py`` defines the timeouts.
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
from gridstead.domain.matching.expiry import ReturnHistory, Timeouts, has_expired
from gridstead.domain.matching.matching import Choice, choose
from gridstead.domain.transactions.calls import Expire, Match, outbox_key
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.skipped_matches import SkippedMatches

log = structlog.get_logger()


class MetaScheduler:
    """Matches each pending job to an eligible provider, and expires overdue jobs.

    Args:
        ledger: The chain.
        follower: Reads all events of the chain from the first block on.
        outbox: The outbox of the meta-scheduler's wallet.
        confirmations: How many blocks must follow the end of a job before the job is forgotten. A
            reorg may revert an end that has fewer confirmations.
        skipped_matches: The matches that the contracts skipped.
    """

    def __init__(
        self,
        ledger: Ledger,
        follower: Follower,
        outbox: Outbox,
        *,
        confirmations: int,
        skipped_matches: SkippedMatches,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._outbox = outbox
        self._confirmations = confirmations
        self._skipped_matches = skipped_matches
        self._hot_ids: set[JobId] = set()
        # The key includes the customer: after a reorg, a job of another customer may have the id.
        self._return_histories: dict[tuple[JobId, str], ReturnHistory] = defaultdict(ReturnHistory)
        self._last_claim_blocks: dict[str, int] = {}  # by provider
        self._block_times: dict[int, int] = {}  # by block number
        self._requested_expiries: set[tuple[JobKey, int]] = set()
        # All providers that were ever approved. A removed provider remains in the set: if a reorg
        # reverts the removal, the follower does not deliver the event of the approval again.
        self._approved_providers: set[str] = set()
        self._view_lock = threading.Lock()
        self._hot_states: dict[JobId, JobState] = {}
        self._unmatched_reasons: dict[JobId, str] = {}

    def tick(self) -> None:
        """Expire overdue jobs and match pending jobs.

        A job without an eligible provider stays pending. The queue view shows the reason.
        """
        # The open matches are read before the skipped matches, because the sender runs in another
        # thread. The sender reports a skipped match before it closes the match's outbox entry. So
        # every match whose entry is closed has been reported.
        jobs_being_matched = self._jobs_being_matched()
        self._skipped_matches.update()
        self._follower.tick(self._read_events)
        if not self._hot_ids:
            self._update_view({}, {})
            return
        head = self._ledger.head()
        jobs = self._ledger.jobs(self._hot_ids, at_block=head)
        confirmed_block = head.number - self._confirmations
        for job in jobs.values():
            if job.state in COLD and job.state_block <= confirmed_block:
                self._forget(job)
        timeouts = self._ledger.timeouts(at_block=head)
        self._expire(jobs.values(), head, timeouts)
        pending_jobs = [job for job in jobs.values() if job.state is JobState.PENDING]
        unmatched_jobs = [job for job in pending_jobs if job.job_key not in jobs_being_matched]
        reasons = self._match(unmatched_jobs, head, timeouts)
        hot_states = {job_id: job.state for job_id, job in jobs.items() if job.state not in COLD}
        self._update_view(hot_states, reasons)

    def matched(self) -> Mapping[JobId, str]:
        """Return the matched and running jobs, each with the name of its state."""
        state_names: dict[JobId, str] = {}
        with self._view_lock:
            for job_id, state in self._hot_states.items():
                if state is not JobState.PENDING:
                    state_names[job_id] = state.name
        return state_names

    def pending(self) -> Mapping[JobId, str]:
        """Return the pending jobs, each with the reason why it is not matched yet."""
        reasons: dict[JobId, str] = {}
        with self._view_lock:
            for job_id, state in self._hot_states.items():
                if state is JobState.PENDING:
                    reasons[job_id] = self._unmatched_reasons.get(job_id, "being matched")
        return reasons

    def _jobs_being_matched(self) -> set[JobKey]:
        """Return the jobs that have a match in the outbox which is neither final nor rejected."""
        job_keys: set[JobKey] = set()
        for entry in self._outbox.open_entries():
            if isinstance(entry.call, Match):
                job_keys.add(entry.call.job_key)
        return job_keys

    def _read_events(self, events: Iterable[ChainEvent]) -> None:
        for event in events:
            if event.kind is ChainEventKind.PROVIDER_APPROVED:
                self._approved_providers.add(event.provider)
            elif event.job_id is not None:
                self._hot_ids.add(event.job_id)
            if event.kind is ChainEventKind.JOB_CLAIMED:
                self._last_claim_blocks[event.provider] = event.block
            changes_history = event.kind in {ChainEventKind.JOB_CLAIMED, ChainEventKind.JOB_REFUSED}
            if changes_history and event.job_id is not None:
                self._return_histories[event.job_id, event.customer].apply(event)

    def _forget(self, ended_job: Job) -> None:
        self._hot_ids.discard(ended_job.id)
        self._return_histories.pop((ended_job.id, ended_job.customer), None)

    def _expire(self, jobs: Collection[Job], head: Block, timeouts: Timeouts) -> None:
        """Request the expiry of every overdue job. A repeated request has no effect.

        If a call cannot be stored, the next tick repeats it. Other calls are not delayed.
        """
        requested_expiries: set[tuple[JobKey, int]] = set()
        for job in jobs:
            if self._is_due(job, head, timeouts) and self._request_expiry(job):
                requested_expiries.add((job.job_key, job.state_block))
        self._requested_expiries = requested_expiries
        # Forget the times of blocks in which no job has its last transition.
        state_blocks = {job.state_block for job in jobs}
        for block in self._block_times.keys() - state_blocks:
            del self._block_times[block]

    def _is_due(self, job: Job, head: Block, timeouts: Timeouts) -> bool:
        return has_expired(
            job,
            head=head,
            timeouts=timeouts,
            claimed_at=self._claimed_at(job, timeouts),
            last_claim_block=self._last_claim_blocks.get(job.provider),
        )

    def _request_expiry(self, job: Job) -> bool:
        """Put the expiry into the outbox, and return whether this succeeded.

        Every failure is logged, but only the first success.
        """
        state = job.state.name
        call = Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)
        try:
            self._outbox.put(outbox_key(call), call)
        except GridsteadError as error:
            log.warning("expiry_failed", job_id=job.id, state=state, reason=str(error))
            return False
        if (job.job_key, job.state_block) not in self._requested_expiries:
            log.warning("expiry_requested", job_id=job.id, state=state, provider=job.provider)
        return True

    def _claimed_at(self, job: Job, timeouts: Timeouts) -> int | None:
        """Return the time of the claim of a job that waits for its start, Unix seconds.

        Returns None for any other job, if the contracts have no start timeout, or if the block of
        the claim is missing. After a reorg the stored time may be wrong. In this case the contracts
        reject the expiry.
        """
        if job.state is not JobState.SCHEDULED or timeouts.start_s is None:
            return None
        if job.state_block not in self._block_times:
            block = self._ledger.block(job.state_block)
            if block is None:
                return None
            self._block_times[job.state_block] = block.timestamp
        return self._block_times[job.state_block]

    def _match(self, pending_jobs: list[Job], head: Block, timeouts: Timeouts) -> dict[JobId, str]:
        """Match the pending jobs. Return why jobs remain unmatched, by job id."""
        reasons: dict[JobId, str] = {}
        if not pending_jobs:
            return reasons
        providers = self._ledger.approved_providers(self._approved_providers, at_block=head)
        matches: list[Match] = []
        for job in pending_jobs:
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
        reasons |= self._store_matches(matches)
        for job_id, reason in reasons.items():
            if self._unmatched_reasons.get(job_id) != reason:
                log.info("job_unmatched", job_id=job_id, reason=reason)
        return reasons

    def _store_matches(self, matches: Sequence[Match]) -> dict[JobId, str]:
        """Put matches into the outbox in one write. If the write fails, put them one by one.

        Returns the reason for each match that could not be stored, by job id.
        """
        calls = [(outbox_key(match), match) for match in matches]
        reasons: dict[JobId, str] = {}
        try:
            self._outbox.put_all(calls)
        except GridsteadError:
            for key, match in calls:
                try:
                    self._outbox.put(key, match)
                except GridsteadError as error:
                    reasons[match.job_key.job_id] = str(error)
        return reasons

    def _choose(
        self, job: Job, providers: Iterable[Provider], head: Block, timeouts: Timeouts
    ) -> Choice:
        """Return the provider for a job, or the reason why there is none."""
        if not is_batch_location_hash(job.batch_location_hash):  # No provider can run this job.
            return Choice(provider=None, reason="the script id of the job is malformed")
        return_history = self._return_histories.get((job.id, job.customer), ReturnHistory())
        excluded_providers = return_history.excluded_providers(head=head, timeouts=timeouts)
        excluded_providers |= self._skipped_matches.excluded_from(job.job_key)
        return choose(
            job,
            providers,
            refused_by=return_history.refused_by,
            timeout_counts=return_history.timeout_counts(),
            excluded_providers=excluded_providers,
        )

    def _update_view(self, states: dict[JobId, JobState], reasons: dict[JobId, str]) -> None:
        with self._view_lock:
            self._hot_states = states
            self._unmatched_reasons = reasons
