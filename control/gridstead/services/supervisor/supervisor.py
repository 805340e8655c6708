# SPDX-License-Identifier: Apache-2.0
"""The supervisor claims jobs, runs them in Slurm and settles them.

Each tick gathers one snapshot, calls ``domain.supervisor.reconcile.plan_jobs`` and performs the
planned actions. The journal is written before and after each submission. After a crash at any
point, the first tick of the restarted supervisor plans and performs the remaining actions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Job, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Cancel, Extend, Note, Put, Submit
from gridstead.domain.supervisor.attempt import ControllerSample
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.supervisor.reconcile import is_claimed, is_head_after_claim, plan_jobs
from gridstead.domain.supervisor.snapshot import Snapshot, SupervisorPolicy
from gridstead.domain.transactions.calls import Settle, call_name, job_key_of
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import GridsteadError
from gridstead.ports import (
    Accounting,
    Clock,
    Journal,
    Ledger,
    Outbox,
    Reports,
    Scheduler,
    ScriptSource,
)
from gridstead.services.chain.follower import Follower
from gridstead.services.failpoint import ignore
from gridstead.services.supervisor.slurm_sampler import SlurmSampler
from gridstead.services.supervisor.submitter import Submitter

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class SupervisorPorts:
    """The ports that a supervisor uses, and the follower of the chain's events."""

    clock: Clock
    ledger: Ledger
    follower: Follower
    journal: Journal
    outbox: Outbox
    scheduler: Scheduler
    accounting: Accounting
    reports: Reports | None
    scripts: ScriptSource


@dataclass(slots=True)
class _Memory:
    """The state in memory. After a restart, the records are read from the journal again.

    A restart resets the other values.
    """

    records: JournalRecords = field(default_factory=JournalRecords)
    unclaimed_since_block: dict[JobKey, int] = field(default_factory=dict)
    claim_blocks: dict[JobId, int] = field(default_factory=dict)


class Supervisor:
    """Runs the jobs that the chain assigns to one provider.

    Args:
        ports: The ports to use.
        policy: The operator's settings.
        submission_threads: How many submissions run in parallel.
        failpoint: Called with the name of each failpoint.
        on_queued: Called at the end of a tick that put calls into the outbox.
    """

    def __init__(
        self,
        ports: SupervisorPorts,
        policy: SupervisorPolicy,
        *,
        submission_threads: int = 1,
        failpoint: Callable[[str], None] = ignore,
        on_queued: Callable[[], object] = lambda: None,
    ) -> None:
        self._ports = ports
        self._policy = policy
        self._failpoint = failpoint
        self._on_queued = on_queued
        self._journal_lock = threading.Lock()
        self._submitter = Submitter(
            clock=ports.clock,
            scheduler=ports.scheduler,
            scripts=ports.scripts,
            write_journal=self._write_journal,
            failpoint=failpoint,
            threads=submission_threads,
        )
        self._slurm = SlurmSampler(
            clock=ports.clock,
            scheduler=ports.scheduler,
            accounting=ports.accounting,
            reports=ports.reports,
        )
        self._memory = _Memory()
        self._memory.records.extend(
            (*ports.journal.cancelled_entries(), *ports.journal.open_entries())
        )

    def tick(self) -> None:
        """Gather a snapshot, plan the actions and perform them.

        The failure of a single action is logged, and the next tick plans the action again.

        Raises:
            GridsteadError: If the chain did not answer. In this case nothing was planned.
        """
        # The sender runs in another thread. If the keys were read after the head, a claim that was
        # mined in between would be planned again.
        open_keys = self._open_keys()
        head = self._ports.follower.follow(self._record_claims)
        snapshot = self._gather_snapshot(head, open_keys)
        actions = plan_jobs(snapshot, self._policy)
        notes = [action.entry for action in actions if isinstance(action, Note)]
        self._try(Note.__name__, partial(self._note, notes))
        for action in actions:
            if isinstance(action, Cancel | Extend):
                self._try(type(action).__name__, partial(self._perform, action))
        self._put([action for action in actions if isinstance(action, Put)])
        self._submitter.submit([action for action in actions if isinstance(action, Submit)])
        if any(isinstance(action, Put) for action in actions):
            self._on_queued()
        if actions:
            log.info(
                "tick_finished",
                block=snapshot.head.number,
                actions=len(actions),
                jobs=len(snapshot.records),
            )

    def close(self) -> None:
        """Wait until the submissions that have started have ended."""
        self._submitter.close()

    def _record_claims(self, events: tuple[ChainEvent, ...], head: Block) -> None:
        """Write a CLAIMED entry for each new claim of the provider that is valid at ``head``."""
        claim_blocks: dict[JobId, int] = {}
        for event in events:
            is_ours = event.provider == self._policy.provider
            is_claim = event.kind is ChainEventKind.JOB_CLAIMED and is_ours
            if is_claim and event.job_id is not None:
                claim_blocks[event.job_id] = event.block
        if not claim_blocks:
            return
        entries: list[JournalEntry] = []
        for job in self._ports.ledger.jobs(claim_blocks, at_block=head).values():
            if not is_claimed(job, job.job_key, self._policy.provider):
                continue
            self._memory.claim_blocks[job.id] = claim_blocks[job.id]
            if job.job_key not in self._memory.records.by_job_key:
                entries.append(self._claim_entry(job))
        self._write_journal(entries)
        self._failpoint("claimed")

    def _claim_entry(self, job: Job) -> JournalEntry:
        block: Block | None = None
        if job.state is JobState.SCHEDULED:
            block = self._ports.ledger.block(job.state_block)
        # A Slurm job that was submitted before the claim does not belong to the job. If the block
        # of the claim is unknown, the time of the customer's request is used, which is earlier than
        # the claim.
        claimed_at = block.timestamp if block else job.submitted_at
        return JournalEntry(job_key=job.job_key, kind=EntryKind.CLAIMED, occurred_at=claimed_at)

    def _write_journal(self, entries: Iterable[JournalEntry]) -> None:
        new_entries = tuple(entries)
        if not new_entries:
            return
        with self._journal_lock:
            self._ports.journal.append(new_entries)
            self._memory.records.extend(new_entries)

    def _gather_snapshot(self, head: Block, open_keys: frozenset[str]) -> Snapshot:
        """Return a snapshot at the block up to which the claims are recorded."""
        ports = self._ports
        submitting = self._submitter.jobs_in_progress()
        with self._journal_lock:
            records = dict(self._memory.records.by_job_key)
        controller_sample = self._slurm.sample_slurmctld()
        open_ids = {job_key.job_id for job_key in records}
        job_ids = open_ids | _live_job_ids(controller_sample)
        jobs: dict[JobId, Job] = {}
        if job_ids:
            jobs.update(ports.ledger.jobs(job_ids, at_block=head))
        reports = self._slurm.pull_reports()
        for job_id in self._memory.claim_blocks.keys() - open_ids:
            del self._memory.claim_blocks[job_id]
        queues = ports.ledger.queue_sizes(self._policy.provider, at_block=head)
        return Snapshot(
            now=ports.clock.now(),
            head=head,
            jobs=jobs,
            queues=queues,
            claimable=self._claimable(queues, head),
            free_nodes=self._slurm.free_nodes() if queues.claimable else None,
            records=records,
            controller_sample=controller_sample,
            accounting_sample=self._slurm.sample_slurmdbd(records, controller_sample, jobs, head),
            reports=reports,
            submitting=submitting,
            open_outbox_keys=open_keys,
            unclaimed_since_block=self._update_unclaimed(jobs, head),
            confirmed_at=self._confirmed_at(jobs, head),
            claim_blocks=dict(self._memory.claim_blocks),
        )

    def _claimable(self, queues: QueueSizes, head: Block) -> tuple[Resources, ...]:
        """Return what the first matched jobs need, as many as one claim takes."""
        if not queues.claimable:
            return ()
        jobs = self._ports.ledger.claimable_jobs(
            self._policy.provider, limit=self._policy.claim_limit, at_block=head
        )
        return tuple(job.resources for job in jobs)

    def _confirmed_at(self, jobs: Mapping[JobId, Job], head: Block) -> int | None:
        """Return the time of the block with enough confirmations, if a job needs this time."""
        number = head.number - self._policy.confirmations
        if number < 0 or not any(job.cancel_requested for job in jobs.values()):
            return None
        block = self._ports.ledger.block(number)
        return block.timestamp if block else None

    def _open_keys(self) -> frozenset[str]:
        """Return the keys of the open calls in the outbox, except mined claims.

        A call about a job stays open until it is final or rejected. If the contract skipped the
        call, the call is planned again after that.
        """
        keys: set[str] = set()
        for entry in self._ports.outbox.open_entries():
            if job_key_of(entry.call) is not None or entry.state is not SendState.MINED:
                keys.add(entry.key)
        return frozenset(keys)

    def _update_unclaimed(self, jobs: Mapping[JobId, Job], head: Block) -> dict[JobKey, int]:
        """Return the first block at which our claim of an open job was missing, by job key.

        A restart of this process forgets these blocks.
        """
        previous_blocks = self._memory.unclaimed_since_block
        unclaimed_since_block: dict[JobKey, int] = {}
        for job_key, record in self._memory.records.by_job_key.items():
            job = jobs.get(job_key.job_id)
            is_ours = job is not None and is_claimed(job, job_key, self._policy.provider)
            if is_head_after_claim(record, head) and not is_ours:
                since_block = previous_blocks.get(job_key, head.number)
                unclaimed_since_block[job_key] = min(since_block, head.number)
        self._memory.unclaimed_since_block = unclaimed_since_block
        return unclaimed_since_block

    def _try(self, name: str, perform: Callable[[], None]) -> None:
        """Perform an action and log a failure. The next tick plans a failed action again."""
        try:
            perform()
        except GridsteadError as error:
            log.warning("action_failed", action=name, code=error.code, reason=str(error))

    def _put(self, actions: Sequence[Put]) -> None:
        """Store calls in the outbox in one write, or one by one if that write fails.

        The calls are stored in one write so that the sender (``services/transactions/sender.py``)
        reads all of them in the same tick.
        """
        for action in actions:
            self._failpoint(f"before_{call_name(action.call)}")
        try:
            self._ports.outbox.put_all([(action.key, action.call) for action in actions])
        except GridsteadError:
            for action in actions:
                self._try(Put.__name__, partial(self._put_single, action))
            return
        for action in actions:
            _log_queued(action)

    def _put_single(self, action: Put) -> None:
        self._ports.outbox.put(action.key, action.call)
        _log_queued(action)

    def _note(self, entries: Sequence[JournalEntry]) -> None:
        """Write entries in one write, because a disk needs much longer for each write."""
        self._write_journal(entries)
        for entry in entries:
            log.info(
                "job_noted",
                job_id=entry.job_key.job_id,
                state=entry.kind.value,
                reason=entry.reason,
            )

    def _perform(self, action: Cancel | Extend) -> None:
        match action:
            case Cancel(slurm_job_id=slurm_job_id, job_key=job_key, reason=reason):
                self._ports.scheduler.cancel(slurm_job_id, job_key=job_key)
                log.info(
                    "attempt_cancelled",
                    job_id=job_key.job_id,
                    slurm_job_id=slurm_job_id,
                    reason=reason,
                )
            case Extend(slurm_job_id=slurm_job_id, job_key=job_key, time_limit_min=limit):
                self._ports.scheduler.extend(slurm_job_id, job_key=job_key, time_limit_min=limit)
                log.info("attempt_extended", job_id=job_key.job_id, slurm_job_id=slurm_job_id)


def _log_queued(action: Put) -> None:
    if isinstance(action.call, Settle) and action.call.error:
        log.info("call_queued", key=action.key, reason=action.call.error)
        return
    log.info("call_queued", key=action.key)


def _live_job_ids(controller_sample: ControllerSample | None) -> set[JobId]:
    """Return the job ids in the job keys of all live attempts, including those of other grids."""
    job_ids: set[JobId] = set()
    if controller_sample is None:
        return job_ids
    for attempt in controller_sample.attempts:
        if attempt.is_alive and attempt.job_key is not None:
            job_ids.add(attempt.job_key.job_id)
    return job_ids
