# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler matches pending jobs to providers and expires jobs that time out.

The meta-scheduler stores only its outbox. At each start it reads all events since the first block.
The events show the jobs, the providers that claimed or refused the jobs, and the credits of the
customers. ``GridState`` feeds the matcher (``domain/matching/matcher.py``) with them.
``SkippedMatches`` remembers the skipped matches until the service stops.
``domain/matching/expiry.py`` defines the timeouts.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import structlog

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.decisions import NO_LIMITS, Limits, Move, Pairing, Rules
from gridstead.domain.matching.expiry import ReturnHistory, Timeouts, has_expired
from gridstead.domain.matching.reasons import REFUSED, Explanation
from gridstead.domain.transactions.calls import Expire, Match, outbox_key
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.explanations import Explanations
from gridstead.services.matching.grid_state import GridState
from gridstead.services.matching.skipped_matches import SkippedMatches

log = structlog.get_logger()

DEFAULT_RULES = Rules()


class MetaScheduler:
    """Matches each pending job to a suitable provider, and expires overdue jobs.

    Args:
        ledger: The chain.
        follower: Reads all events of the chain from the first block on.
        outbox: The outbox of the meta-scheduler's wallet.
        confirmations: How many blocks must follow the end of a job before the job is forgotten, and
            a transfer of credits before it is counted. A reorg may revert what has fewer.
        skipped_matches: The matches that the contracts skipped.
        rules: The parameters of the matching.
    """

    def __init__(
        self,
        ledger: Ledger,
        follower: Follower,
        outbox: Outbox,
        *,
        confirmations: int,
        skipped_matches: SkippedMatches,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._outbox = outbox
        self._confirmations = confirmations
        self._skipped_matches = skipped_matches
        self._grid = GridState(rules, confirmations=confirmations)
        self._explanations = Explanations()
        self._hot_ids: set[JobId] = set()
        # The key includes the customer: after a reorg, a job of another customer may have the id.
        self._return_histories: dict[tuple[JobId, str], ReturnHistory] = defaultdict(ReturnHistory)
        self._last_claim_blocks: dict[str, int] = {}  # by provider
        self._block_times: dict[int, int] = {}  # by block number
        self._requested_expiries: set[tuple[JobKey, int]] = set()
        # All providers that were ever approved. A removed provider remains in the set: if a reorg
        # reverts the removal, the follower does not deliver the event of the approval again.
        self._approved_providers: set[str] = set()
        self._decided_block: Block | None = None  # the block of the last decision
        self._view_lock = threading.Lock()
        self._hot_states: dict[JobId, JobState] = {}
        self._unmatched_reasons: dict[JobId, str] = {}

    def tick(self) -> None:
        """Expire overdue jobs and match pending jobs.

        A job that gets no provider stays pending. The queue view shows the reason.
        """
        # The open matches are read before the skipped matches, because the sender runs in another
        # thread. The sender reports a skipped match before it closes the match's outbox entry. So
        # every match whose entry is closed has been reported.
        open_matches = self._open_matches()
        self._skipped_matches.update()
        # Everything is read at the block up to which the events were read.
        head = self._follower.tick(self._read_events, rewind=self._grid.rewind)
        self._grid.count_transfers(head.number)
        if not self._hot_ids:
            self._update_view({}, {})
            return
        jobs = self._ledger.jobs(self._hot_ids, at_block=head)
        confirmed_block = head.number - self._confirmations
        for job in jobs.values():
            if job.state in COLD and job.state_block <= confirmed_block:
                self._forget(job)
        timeouts = self._ledger.timeouts(at_block=head)
        self._expire(jobs.values(), head, timeouts)
        hot_jobs = {job_id: job for job_id, job in jobs.items() if job_id in self._hot_ids}
        self._grid.update_jobs(hot_jobs, open_matches)
        pending_jobs = [job for job in jobs.values() if job.state is JobState.PENDING]
        unmatched_jobs = [job for job in pending_jobs if job.job_key not in open_matches]
        unsent_count = len(pending_jobs) - len(unmatched_jobs)
        reasons = self._match(unmatched_jobs, head, timeouts, unsent_count=unsent_count)
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

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Return why a pending job is not matched yet. None for any other job."""
        with self._view_lock:
            is_pending = self._hot_states.get(job_id) is JobState.PENDING
        return self._explanations.of(job_id) if is_pending else None

    def _open_matches(self) -> dict[JobKey, Match]:
        """Return the matches in the outbox that are neither final nor rejected, by job."""
        matches: dict[JobKey, Match] = {}
        for entry in self._outbox.open_entries():
            if isinstance(entry.call, Match):
                matches[entry.call.job_key] = entry.call
        return matches

    def _read_events(self, events: Sequence[ChainEvent]) -> None:
        for event in events:
            self._grid.read_event(event)
            if event.kind is ChainEventKind.PROVIDER_APPROVED:
                self._approved_providers.add(event.provider)
            elif event.job_id is not None:
                self._hot_ids.add(event.job_id)
            if event.kind is ChainEventKind.JOB_CLAIMED:
                self._last_claim_blocks[event.provider] = event.block
            changes_history = event.kind in {ChainEventKind.JOB_CLAIMED, ChainEventKind.JOB_REFUSED}
            if changes_history and event.job_id is not None:
                self._return_histories[event.job_id, event.customer].apply(event)
        # At the start, this keeps the number of transfers in memory small.
        self._grid.count_transfers(events[-1].block)

    def _forget(self, ended_job: Job) -> None:
        self._grid.forget_job(ended_job)
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

    def _match(
        self, pending_jobs: list[Job], head: Block, timeouts: Timeouts, *, unsent_count: int
    ) -> dict[JobId, str]:
        """Match the pending jobs, once per block. Return why jobs remain unmatched, by job id.

        A job whose match fails is decided again at the next block.
        """
        if not pending_jobs:
            self._explanations.clear(head)
            return {}
        if head == self._decided_block:
            return self._reasons_of(pending_jobs)
        addresses = self._approved_providers
        providers = self._ledger.approved_providers(addresses, at_block=head)
        self._grid.update_providers(providers, addresses)
        limits_by_job = {job.id: self._limits(job, head, timeouts) for job in pending_jobs}
        self._grid.set_limits(limits_by_job.items())
        excluded_providers = self._skipped_matches.excluded_from_all()
        decision = self._grid.decide(head, excluded_providers, unsent_count=unsent_count)
        self._decided_block = head
        _log_moves(decision.moves)
        self._explanations.add_moves(decision.moves)
        errors = self._store_matches([_to_call(pairing) for pairing in decision.matches])
        matched_ids = {pairing.job.id for pairing in decision.matches}
        waiting_jobs = [job for job in pending_jobs if job.id not in matched_ids]
        reasons = self._explanations.explain(
            waiting_jobs,
            self._grid.matcher,
            head=head,
            excluded_providers=excluded_providers,
            unstored=errors,
        )
        texts = {job_id: reason.text for job_id, reason in reasons.items()}
        for job_id, text in texts.items():
            if self._unmatched_reasons.get(job_id) != text:
                log.info("job_unmatched", job_id=job_id, reason=text)
        return texts

    def _reasons_of(self, jobs: Iterable[Job]) -> dict[JobId, str]:
        """Return the reasons of the last decision, by job id."""
        reasons: dict[JobId, str] = {}
        for job in jobs:
            if job.id in self._unmatched_reasons:
                reasons[job.id] = self._unmatched_reasons[job.id]
        return reasons

    def _limits(self, job: Job, head: Block, timeouts: Timeouts) -> Limits:
        """Return which providers are excluded from a job, and how often each did not claim it."""
        history = self._return_histories.get((job.id, job.customer))
        skipped_by = self._skipped_matches.excluded_from(job.job_key)
        if history is None and not skipped_by:
            return NO_LIMITS
        excluded: dict[str, str] = {}
        timeout_counts: Mapping[str, int] = {}
        if history is not None:
            excluded |= dict.fromkeys(history.refused_by, REFUSED)
            excluded |= history.excluded_providers(head=head, timeouts=timeouts)
            timeout_counts = history.timeout_counts()
        return Limits(excluded | skipped_by, timeout_counts)

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

    def _update_view(self, states: dict[JobId, JobState], reasons: dict[JobId, str]) -> None:
        with self._view_lock:
            self._hot_states = states
            self._unmatched_reasons = reasons


def _log_moves(moves: Iterable[Move]) -> None:
    for move in moves:
        log.info(
            "reservation_moved",
            job_id=move.job_id,
            provider=move.provider,
            delay_s=move.to_s - move.from_s,
            reason=move.cause,
        )


def _to_call(pairing: Pairing) -> Match:
    return Match(
        job_key=pairing.job.job_key,
        provider=pairing.provider,
        max_price_per_min=pairing.price_per_min,  # at a higher price, the choice may be wrong
    )
