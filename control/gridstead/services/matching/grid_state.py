# SPDX-License-Identifier: Apache-2.0
"""Feeds the matcher with the jobs, the providers and the credits of the chain.

A match counts as made from the decision on. Until it is mined, the job is PENDING on the chain. So
this module shows a job as META_SCHEDULED to the matcher while the outbox has an open match of it.
If the match fails, it shows the job as PENDING again.

Transfers of credits are counted only when they have enough confirmations, because a reorg may
remove newer ones. If a reorg may be deeper, everything is counted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey, is_batch_location_hash
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.decisions import Decision, Limits, Rules
from gridstead.domain.matching.matcher import Matcher
from gridstead.domain.matching.snapshot import GridSnapshot, Snapshot
from gridstead.domain.transactions.calls import Match
from gridstead.services.matching.chain_memory import ChainMemory, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownJob:
    """The arguments of ``Matcher.set_job``."""

    job: Job
    requested_block: int
    matched_block: int
    top_ups: tuple[tuple[int, int], ...]


class GridState:
    """The state of the grid on which matches are decided.

    Args:
        rules: The parameters of the grid's matching.
        confirmations: How many blocks must follow a transfer before it is counted.

    Attributes:
        matcher: Decides the matches.
    """

    def __init__(self, rules: Rules, *, confirmations: int) -> None:
        self._rules = rules
        self._confirmations = confirmations
        self.matcher = Matcher(rules)
        self._requested_blocks: dict[JobId, int] = {}
        self._matched_blocks: dict[JobId, int] = {}
        # The block and the amount of each top-up.
        self._top_ups: dict[JobId, list[tuple[int, int]]] = {}
        self._new_transfers: list[ChainEvent] = []
        self._counted_to = -1  # the newest block whose transfers are counted
        # The jobs as they were last shown to the matcher.
        self._shown_jobs: dict[JobId, _ShownJob] = {}
        # The jobs that are PENDING on the chain, but were shown as matched.
        self._assumed_ids: set[JobId] = set()
        self._is_matcher_new = True  # whether the matcher knows no jobs and no providers yet

    def snapshot(self) -> GridSnapshot:
        """Return the values, except those of the matcher. Later changes do not change the result.

        Must be called after a complete tick. Otherwise the matcher may not know the newest jobs.
        """
        top_ups = self._top_ups.items()
        return GridSnapshot(
            requested_blocks=self._requested_blocks.copy(),
            matched_blocks=self._matched_blocks.copy(),
            top_ups={job_id: tuple(values) for job_id, values in top_ups},
            new_transfers=tuple(self._new_transfers),
            counted_to=self._counted_to,
            assumed_jobs=tuple(self._shown_jobs[job_id].job for job_id in self._assumed_ids),
            is_matcher_new=self._is_matcher_new,
        )

    def restore(self, snapshot: Snapshot, memory: ChainMemory) -> None:
        """Restore the values and the matcher. This object must be new.

        Args:
            snapshot: The snapshot.
            memory: The jobs and the providers, restored from the same snapshot.
        """
        grid = snapshot.grid
        self._requested_blocks = dict(grid.requested_blocks)
        self._matched_blocks = dict(grid.matched_blocks)
        self._top_ups = {job_id: list(top_ups) for job_id, top_ups in grid.top_ups.items()}
        self._new_transfers = list(grid.new_transfers)
        self._counted_to = grid.counted_to
        self._is_matcher_new = grid.is_matcher_new
        self.matcher.reputation.restore(snapshot.reputation)
        self.matcher.restore_providers(snapshot.matcher)
        if not grid.is_matcher_new:
            assumed_jobs = {job.id: job for job in grid.assumed_jobs}
            self._assumed_ids = set(assumed_jobs)
            for job_id, job in memory.jobs.items():
                self._update_job(job_id, assumed_jobs.get(job_id, job), {})
        self.matcher.restore_occupation(snapshot.matcher)

    def rewind(self, first_block: int) -> None:
        """Forget the events from a block on. Those that still exist are delivered again."""
        self._new_transfers = [
            transfer for transfer in self._new_transfers if transfer.block < first_block
        ]
        for job_id, top_ups in self._top_ups.items():
            self._top_ups[job_id] = [top_up for top_up in top_ups if top_up[0] < first_block]
        if first_block <= self._counted_to:
            self.matcher = Matcher(self._rules)
            self._new_transfers.clear()
            self._counted_to = -1
            self._shown_jobs.clear()
            self._assumed_ids.clear()
            self._is_matcher_new = True

    def read_event(self, event: ChainEvent) -> None:
        """Read an event of the chain."""
        if event.kind is ChainEventKind.CREDITS_TRANSFERRED:
            if event.amount:  # anyone may transfer nothing in the name of any wallet
                self._new_transfers.append(event)
        elif event.job_id is None:
            return
        elif event.kind is ChainEventKind.JOB_REQUESTED:
            self._requested_blocks[event.job_id] = event.block
            self._top_ups.pop(event.job_id, None)
        elif event.kind is ChainEventKind.JOB_TOPPED_UP:
            self._top_ups.setdefault(event.job_id, []).append((event.block, event.amount))
        elif event.state is JobState.META_SCHEDULED:
            self._matched_blocks[event.job_id] = event.block

    def forget_job(self, job: Job, returned_by: Mapping[str, int]) -> None:
        """Forget a job that has ended. What its customer used and its provider did still counts.

        Args:
            job: The job in its last state, which no reorg reverts.
            returned_by: The providers that refused the job or did not claim it in time, with the
                block of the last such event, by address.
        """
        self._show(job)
        shown_job = self._shown_jobs.pop(job.id)
        self.matcher.forget_job(
            job.id, matched_block=shown_job.matched_block, returned_by=returned_by
        )
        self._requested_blocks.pop(job.id, None)
        self._matched_blocks.pop(job.id, None)
        self._top_ups.pop(job.id, None)

    def update(
        self, memory: ChainMemory, update: Update, open_matches: Mapping[JobKey, Match]
    ) -> None:
        """Show the jobs and the providers that changed to the matcher.

        Args:
            memory: The jobs and the approved providers.
            update: The last update of the memory.
            open_matches: The matches in the outbox that are neither final nor rejected.
        """
        addresses: set[str] = set(update.providers)
        job_ids: set[JobId] = set(update.job_ids)
        if self._is_matcher_new:
            addresses.update(memory.providers)
            job_ids.update(memory.jobs)
            self._is_matcher_new = False
        # The reason for the last move of a reservation depends on the order of the changes.
        for address in sorted(addresses):
            provider = memory.providers.get(address)
            if provider is None:
                self.matcher.remove_provider(address)
            else:
                self.matcher.set_provider(provider)
        job_ids |= self._assumed_ids
        job_ids.update(job_key.job_id for job_key in open_matches)
        self._assumed_ids = set()
        for job_id in sorted(job_ids, key=attrgetter("request_order")):
            self._update_job(job_id, memory.jobs.get(job_id), open_matches)

    def _update_job(
        self, job_id: JobId, job: Job | None, open_matches: Mapping[JobKey, Match]
    ) -> None:
        """Show a job to the matcher. None if it does not exist any more."""
        if job is not None and job.state is JobState.PENDING:
            match = open_matches.get(job.job_key)
            if match is not None:
                job = _as_matched(job, match)
                self._assumed_ids.add(job_id)
        # Before a reorg, a well-formed job may have had the id of a malformed one.
        is_shown = job is not None and (
            is_batch_location_hash(job.batch_location_hash) or job.state in COLD
        )
        if job is not None and is_shown:
            self._show(job)
        elif self._shown_jobs.pop(job_id, None) is not None:
            self.matcher.remove_job(job_id)

    def set_limits(self, job_id: JobId, limits: Limits) -> None:
        """Set which providers a pending job must not get, and which it should not get."""
        self.matcher.set_limits(job_id, limits)

    def decide(
        self, head: Block, excluded_providers: Mapping[str, str], *, unsent_count: int
    ) -> Decision:
        """Decide the next matches at the newest block.

        Args:
            head: The newest block.
            excluded_providers: The providers that get no job now, with the reasons, by address.
            unsent_count: The number of earlier matches that are not in a block yet.
        """
        decision = self.matcher.decide(
            now=head.timestamp,
            block=head.number,
            excluded_providers=excluded_providers,
            unsent_count=unsent_count,
        )
        for pairing in decision.matches:
            matched_job = replace(
                pairing.job,
                state=JobState.META_SCHEDULED,
                provider=pairing.provider,
                price_per_min=pairing.price_per_min,
            )
            self._matched_blocks[pairing.job.id] = head.number
            self._shown_jobs[pairing.job.id] = self._as_shown(matched_job)
            self._assumed_ids.add(pairing.job.id)
        return decision

    def count_transfers(self, followed_to: int) -> None:
        """Count the transfers that have enough confirmations.

        Args:
            followed_to: The newest block whose events were read.
        """
        last_block = followed_to - self._confirmations
        unconfirmed_transfers = []
        for transfer in self._new_transfers:
            if transfer.block > last_block:
                unconfirmed_transfers.append(transfer)
                continue
            self.matcher.shares.transfer(
                transfer.sender, transfer.receiver, transfer.amount, block=transfer.block
            )
        self._new_transfers = unconfirmed_transfers
        self._counted_to = max(self._counted_to, last_block)

    def _show(self, job: Job) -> None:
        """Show a job to the matcher, if it changed."""
        shown_job = self._as_shown(job)
        if self._shown_jobs.get(job.id) == shown_job:
            return
        self._shown_jobs[job.id] = shown_job
        self.matcher.set_job(
            job,
            requested_block=shown_job.requested_block,
            matched_block=shown_job.matched_block,
            top_ups=shown_job.top_ups,
        )

    def _as_shown(self, job: Job) -> _ShownJob:
        return _ShownJob(
            job=job,
            requested_block=self._requested_blocks.get(job.id, job.state_block),
            matched_block=self._matched_blocks.get(job.id, job.state_block),
            top_ups=tuple(self._top_ups.get(job.id, ())),
        )


def _as_matched(job: Job, match: Match) -> Job:
    return replace(
        job,
        state=JobState.META_SCHEDULED,
        provider=match.provider,
        price_per_min=match.max_price_per_min,
    )
