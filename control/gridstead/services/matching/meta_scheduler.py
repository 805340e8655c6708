# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler matches pending jobs to providers and expires jobs that time out.

The meta-scheduler stores its outbox, its decision log (``DecisionLog``) and snapshots of its state
(``Snapshots``). The state is in memory, and follows the events since the first block. The events
show the jobs, the providers that claimed or refused the jobs, and the credits of the customers.
``ChainMemory`` remembers the jobs and the providers, and reads only those that had an event.
``GridState`` feeds the matcher (``domain/matching/matcher.py``) with them. ``Expiries`` requests
the expiry of overdue jobs. ``Standby`` delays the matches while another meta-scheduler is first.
``SkippedMatches`` remembers the skipped matches.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import structlog

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey, is_batch_location_hash
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.decisions import NO_LIMITS, Limits, Move, Pairing, Rules
from gridstead.domain.matching.expiry import ClaimBlocks, ReturnHistory, Timeouts
from gridstead.domain.matching.reasons import (
    BEING_MATCHED,
    REFUSED,
    Cause,
    Explanation,
    WaitingReason,
)
from gridstead.domain.matching.snapshot import ClaimsSnapshot, Progress, Snapshot
from gridstead.domain.transactions.calls import Match, outbox_key
from gridstead.errors import GridsteadError
from gridstead.ports import Ledger, Outbox
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.chain_memory import ChainMemory
from gridstead.services.matching.decision_log import DecisionLog
from gridstead.services.matching.expiries import Expiries
from gridstead.services.matching.explanations import Explanations
from gridstead.services.matching.grid_state import GridState
from gridstead.services.matching.rests import RestLog
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.matching.standby import Standby

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
        decision_log: Stores the matches in the outbox, and logs them. None for no log.
        wallet: The address of the meta-scheduler. Empty if the grid has no other meta-scheduler.
    """

    def __init__(  # noqa: PLR0913 # one argument per collaborator
        self,
        ledger: Ledger,
        follower: Follower,
        outbox: Outbox,
        *,
        confirmations: int,
        skipped_matches: SkippedMatches,
        rules: Rules = DEFAULT_RULES,
        decision_log: DecisionLog | None = None,
        wallet: str = "",
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._outbox = outbox
        self._confirmations = confirmations
        self._skipped_matches = skipped_matches
        self._decision_log = decision_log
        self._standby = Standby(wallet)
        self._grid = GridState(rules, confirmations=confirmations)
        self._explanations = Explanations()
        self._rest_log = RestLog()
        self._memory = ChainMemory(ledger)
        self._expiries = Expiries(ledger, outbox)
        # The key includes the customer: after a reorg, a job of another customer may have the id.
        self._return_histories: dict[tuple[JobId, str], ReturnHistory] = defaultdict(ReturnHistory)
        self._claim_blocks = ClaimBlocks(confirmations)
        self._pending_jobs: dict[JobId, Job] = {}
        self._malformed_ids: set[JobId] = set()  # the pending jobs that no provider can run
        # The pending jobs that may have limits: those that a provider returned, and those whose
        # match was skipped.
        self._returned_ids: set[JobId] = set()
        self._limited_ids: set[JobId] = set()
        self._decided_block: Block | None = None  # the block of the last decision
        self._view_lock = threading.Lock()
        self._hot_states: dict[JobId, JobState] = {}
        self._unmatched_reasons: Mapping[JobId, WaitingReason] = {}

    def tick(self) -> None:
        """Expire overdue jobs and match pending jobs.

        A job that gets no provider stays pending. The queue view shows the reason.
        """
        # The open matches are read before the skipped matches, because the sender runs in another
        # thread. The sender reports a skipped match before it closes the match's outbox entry. So
        # every match whose entry is closed has been reported.
        open_matches = self._open_matches()
        self._skipped_matches.update()
        followed_to = self._follower.tick(self._read_events, rewind=self._rewind)
        self._grid.count_transfers(followed_to.number)
        if self._memory.is_empty:
            return
        update = self._memory.update(followed_to)
        self._note_changes(update.job_ids, open_matches)
        open_matches |= self._standby.held(self._pending_jobs)
        for block, matches in self._standby.release(update.block):
            self._store_matches(matches, block)
        self._grid.update(self._memory, update, open_matches)
        last_confirmed = min(update.block.number, followed_to.number) - self._confirmations
        for job in self._memory.ended_jobs(confirmed_block=last_confirmed):
            self._forget(job)
        timeouts = self._ledger.timeouts(at_block=update.block)
        self._expiries.request_due(update.block, timeouts, self._claim_blocks)
        reasons = self._match(open_matches, update.block, timeouts)
        with self._view_lock:
            self._unmatched_reasons = reasons

    def snapshot(self, history: tuple[Block, ...]) -> Snapshot:
        """Return the state after a complete tick, and the history of the follower's cursor."""
        histories = self._return_histories.items()
        return Snapshot(
            progress=Progress(
                history=history,
                decided_block=self._decided_block,
                last_moves=self._explanations.last_moves,
            ),
            memory=self._memory.snapshot(),
            grid=self._grid.snapshot(),
            matcher=self._grid.matcher.snapshot(),
            reputation=self._grid.matcher.reputation.snapshot(),
            claims=ClaimsSnapshot(
                returns={key: return_history.events for key, return_history in histories},
                claim_blocks=self._claim_blocks.snapshot(),
                claim_times=self._expiries.claim_times(),
            ),
            standby=self._standby.snapshot(),
            skips=self._skipped_matches.snapshot(),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot. The next decision finds the reasons of pending jobs again."""
        self._memory.restore(snapshot.memory)
        self._grid.restore(snapshot, self._memory)
        for (job_id, customer), events in snapshot.claims.returns.items():
            self._returned_ids.add(job_id)
            for event in events:
                self._return_histories[job_id, customer].apply(event)
        self._claim_blocks.restore(snapshot.claims.claim_blocks)
        self._note_changes(self._memory.jobs, {})
        self._expiries.restore_claim_times(snapshot.claims.claim_times)
        self._standby.restore(snapshot.standby)
        self._skipped_matches.restore(snapshot.skips)
        self._explanations.add_moves(snapshot.progress.last_moves.values())
        self._decided_block = snapshot.progress.decided_block

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
                    reasons[job_id] = self._unmatched_reasons.get(job_id, BEING_MATCHED).text
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
            self._standby.read_event(event)
            self._memory.read_event(event)
            if event.kind is ChainEventKind.JOB_CLAIMED:
                self._claim_blocks.add(event.provider, event.block)
            changes_history = event.kind in {ChainEventKind.JOB_CLAIMED, ChainEventKind.JOB_REFUSED}
            if changes_history and event.job_id is not None:
                self._return_histories[event.job_id, event.customer].apply(event)
                self._returned_ids.add(event.job_id)
        # At the start, this keeps the number of transfers in memory small.
        self._grid.count_transfers(events[-1].block)

    def _rewind(self, first_block: int) -> None:
        self._grid.rewind(first_block)
        self._memory.rewind(first_block)
        self._claim_blocks.rewind(first_block)
        # The ids remain in _returned_ids, because the limits of these jobs may change.
        for key, history in list(self._return_histories.items()):
            history.rewind(first_block)
            if history.is_empty:
                del self._return_histories[key]

    def _note_changes(self, job_ids: Iterable[JobId], open_matches: Mapping[JobKey, Match]) -> None:
        """Pass jobs that were read to the collaborators, and update the sets of pending jobs."""
        for job_id in job_ids:
            job = self._memory.jobs.get(job_id)
            self._expiries.set_job(job_id, job)
            if job is not None:
                self._standby.note_change(job, open_matches)
            self._pending_jobs.pop(job_id, None)
            self._malformed_ids.discard(job_id)
            if job is not None and job.state is JobState.PENDING:
                self._pending_jobs[job_id] = job
                if not is_batch_location_hash(job.batch_location_hash):
                    self._malformed_ids.add(job_id)
            with self._view_lock:
                if job is None or job.state in COLD:
                    self._hot_states.pop(job_id, None)
                else:
                    self._hot_states[job_id] = job.state

    def _forget(self, ended_job: Job) -> None:
        history = self._return_histories.pop((ended_job.id, ended_job.customer), ReturnHistory())
        self._grid.forget_job(ended_job, history.last_returns())
        self._memory.forget_job(ended_job.id)
        self._returned_ids.discard(ended_job.id)

    def _match(
        self, open_matches: Mapping[JobKey, Match], head: Block, timeouts: Timeouts
    ) -> Mapping[JobId, WaitingReason]:
        """Match the pending jobs, once per block. Return why jobs remain unmatched, by job id.

        A job whose match fails is decided again at the next block.
        """
        if head == self._decided_block:
            return self._unmatched_reasons
        waiting_jobs = self._pending_jobs.copy()
        for job_key in open_matches:
            job = waiting_jobs.get(job_key.job_id)
            if job is not None and job.job_key == job_key:
                del waiting_jobs[job.id]
        if not waiting_jobs:
            self._explanations.clear(head)
            return {}
        unsent_count = len(self._pending_jobs) - len(waiting_jobs)
        self._update_limits(head, timeouts)
        excluded_providers = self._skipped_matches.excluded_from_all()
        decision = self._grid.decide(head, excluded_providers, unsent_count=unsent_count)
        self._decided_block = head
        _log_moves(decision.moves)
        self._rest_log.update(self._grid.matcher.reputation.standings)
        self._explanations.add_moves(decision.moves)
        matches = [_to_call(pairing) for pairing in decision.matches]
        errors: dict[JobId, str] = {}
        if not self._standby.hold(matches, head):
            errors = self._store_matches(matches, head)
        for pairing in decision.matches:
            del waiting_jobs[pairing.job.id]
        reasons = self._explanations.explain(
            tuple(waiting_jobs.values()),
            self._grid.matcher,
            head=head,
            excluded_providers=excluded_providers,
            unstored=errors,
            malformed_ids=self._malformed_ids,
        )
        self._log_new(reasons)
        return reasons

    def _log_new(self, reasons: Mapping[JobId, WaitingReason]) -> None:
        """Log the reason of each job that did not wait before, or waits for another cause.

        Changes of the figures are not logged, because they may affect most jobs in each block.
        """
        for job_id, reason in reasons.items():
            old_reason = self._unmatched_reasons.get(job_id, BEING_MATCHED)
            if reason is old_reason or reason.cause in {old_reason.cause, Cause.NOT_EXPLAINED}:
                continue
            log.info("job_unmatched", job_id=job_id, reason=reason.text)

    def _update_limits(self, head: Block, timeouts: Timeouts) -> None:
        """Set the limits of the pending jobs that may have limits of their own."""
        limited_ids: set[JobId] = set()
        for job_id in self._returned_ids | self._skipped_matches.job_ids() | self._limited_ids:
            job = self._pending_jobs.get(job_id)
            if job is None:
                continue
            limits = self._limits(job, head, timeouts)
            self._grid.set_limits(job_id, limits)
            if limits != NO_LIMITS:
                limited_ids.add(job_id)
        self._limited_ids = limited_ids

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

    def _store_matches(self, matches: Sequence[Match], block: Block) -> dict[JobId, str]:
        """Put matches into the outbox in one write. If the write fails, put them one by one.

        Returns the reason for each match that could not be stored, by job id.
        """
        reasons: dict[JobId, str] = {}
        try:
            self._put_matches(matches, block)
        except GridsteadError:
            for match in matches:
                try:
                    self._put_matches([match], block)
                except GridsteadError as error:
                    reasons[match.job_key.job_id] = str(error)
        return reasons

    def _put_matches(self, matches: Sequence[Match], block: Block) -> None:
        if not matches:
            return
        if self._decision_log is not None:
            self._decision_log.put_matches(block, matches)
            return
        self._outbox.put_all([(outbox_key(match), match) for match in matches])


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
