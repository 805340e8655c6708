# SPDX-License-Identifier: Apache-2.0
"""The supervisor claims jobs, runs them in Slurm and settles them.

Each tick gathers one snapshot, calls ``domain.reconcile.plan_jobs`` and performs the actions. The
journal is written before and after each action with an external effect. After a crash on any line,
the next start plans and performs the remaining actions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Cancel, Extend, Note, Put, Submit
from gridstead.domain.supervisor.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.supervisor.reconcile import is_claimed, knows_claim, plan_jobs
from gridstead.domain.supervisor.snapshot import Rules, Snapshot
from gridstead.domain.transactions.calls import name_of
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import GridsteadError, Transient, UnexpectedOutput
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
from gridstead.services.supervisor.submitter import Submitter

log = structlog.get_logger()

REPORT_MEMORY_S = 24 * 3600
ACCOUNTING_MARGIN_S = 3600
ACCOUNT_ALL_EVERY_S = 60


@dataclass(slots=True, kw_only=True)
class SupervisorPorts:
    """The ports that a supervisor uses."""

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
    """State that a restart reads again, so it may be lost at any time."""

    records: JournalRecords = field(default_factory=JournalRecords)
    reports: list[NodeReport] = field(default_factory=list)
    report_sequence: int = 0
    all_accounted_at: int = 0
    unclaimed_since: dict[JobKey, int] = field(default_factory=dict)


class Supervisor:
    """Runs the jobs that the chain assigns to one provider.

    Args:
        ports: The ports to use.
        rules: The operator's settings.
        submission_threads: How many jobs are fetched and submitted in parallel.
        failpoint: Called with the name of each failpoint.
    """

    def __init__(
        self,
        ports: SupervisorPorts,
        rules: Rules,
        *,
        submission_threads: int = 1,
        failpoint: Callable[[str], None] = ignore,
    ) -> None:
        self._ports = ports
        self._rules = rules
        self._failpoint = failpoint
        self._noting = threading.Lock()
        self._submitter = Submitter(
            clock=ports.clock,
            scheduler=ports.scheduler,
            scripts=ports.scripts,
            note=self._note,
            failpoint=failpoint,
            threads=submission_threads,
        )
        self._memory = _Memory()
        self._memory.records.extend(
            (*ports.journal.cancelled_entries(), *ports.journal.open_entries())
        )

    def tick(self) -> None:
        """Gather a snapshot, plan the actions and perform them.

        A failure of a single job is logged.

        Raises:
            GridsteadError: If the chain did not answer; nothing was planned.
        """
        self._ports.follower.follow(self._remember_claims)
        snapshot = self._gather()
        actions = plan_jobs(snapshot, self._rules)
        for action in actions:
            if not isinstance(action, Submit | Put):
                self._try(type(action).__name__, partial(self._act, action))
        self._put([action for action in actions if isinstance(action, Put)])
        # Submissions come last because they take longest. The claim limit bounds their number.
        self._submitter.submit([action for action in actions if isinstance(action, Submit)])
        if actions:
            log.info(
                "tick_finished",
                block=snapshot.head.number,
                actions=len(actions),
                jobs=len(snapshot.records),
            )

    def _remember_claims(self, events: tuple[ChainEvent, ...], head: Block) -> None:
        """Open a record for each hot job that the provider has claimed at the block ``head``."""
        claimed: set[JobId] = set()
        for event in events:
            is_ours = event.provider == self._rules.provider
            is_claim = event.kind is ChainEventKind.JOB_CLAIMED and is_ours
            if is_claim and event.job_id is not None:
                claimed.add(event.job_id)
        if not claimed:
            return
        entries: list[JournalEntry] = []
        for job in self._ports.ledger.jobs(claimed, at_block=head).values():
            if not is_claimed(job, job.job_key, self._rules.provider):
                continue
            if job.job_key not in self._memory.records.by_job_key:
                entries.append(self._claim_entry(job))
        self._note(entries)
        self._failpoint("claimed")

    def _claim_entry(self, job: Job) -> JournalEntry:
        block: Block | None = None
        if job.state is JobState.SCHEDULED:
            block = self._ports.ledger.block(job.state_block)
        claimed_at = block.timestamp if block else job.submitted_at
        return JournalEntry(job_key=job.job_key, kind=EntryKind.CLAIMED, occurred_at=claimed_at)

    def _note(self, entries: Iterable[JournalEntry]) -> None:
        new = tuple(entries)
        if not new:
            return
        with self._noting:
            self._ports.journal.append(new)
            self._memory.records.extend(new)

    def _gather(self) -> Snapshot:
        ports, records = self._ports, self._memory.records.by_job_key
        live = self._live()
        head = ports.ledger.head()
        job_ids = {job_key.job_id for job_key in records} | _live_job_ids(live)
        jobs = dict(ports.ledger.jobs(job_ids, at_block=head)) if job_ids else {}
        self._pull_reports()
        return Snapshot(
            now=ports.clock.now(),
            head=head,
            jobs=jobs,
            queues=ports.ledger.queue_sizes(self._rules.provider, at_block=head),
            records=dict(records),
            live=live,
            accounting=self._accounting(live, jobs, head),
            reports=tuple(self._memory.reports),
            open_keys=self._open_keys(),
            unclaimed_since=self._note_unclaimed(jobs, head),
        )

    def _open_keys(self) -> frozenset[str]:
        """Return the keys of the outbox's calls that are in no block yet."""
        entries = self._ports.outbox.open_entries()
        return frozenset(entry.key for entry in entries if entry.state is not SendState.MINED)

    def _note_unclaimed(self, jobs: Mapping[JobId, Job], head: Block) -> dict[JobKey, int]:
        """Return, by job key, the block since which an open job is not claimed by the provider.

        A restart of this process starts the count again.
        """
        before = self._memory.unclaimed_since
        unclaimed: dict[JobKey, int] = {}
        for job_key, record in self._memory.records.by_job_key.items():
            job = jobs.get(job_key.job_id)
            is_ours = job is not None and is_claimed(job, job_key, self._rules.provider)
            if knows_claim(record, head) and not is_ours:
                unclaimed[job_key] = min(before.get(job_key, head.number), head.number)
        self._memory.unclaimed_since = unclaimed
        return unclaimed

    def _live(self) -> LiveSample | None:
        """Return what slurmctld lists, None if slurmctld did not answer.

        The sample is dated by this host's clock before the request, because the answer may take
        long.
        """
        requested_at = self._ports.clock.now()
        try:
            return replace(self._ports.scheduler.list_jobs(), taken_at=requested_at)
        except (Transient, UnexpectedOutput) as error:
            log.warning("slurm_unanswered", code=error.code, reason=str(error))
            return None

    def _accounting(
        self, live: LiveSample | None, jobs: Mapping[JobId, Job], head: Block
    ) -> AccountingSample | None:
        """Return slurmdbd's records of open jobs, None if slurmdbd did not answer."""
        job_keys = self._keys_to_account(live)
        if not job_keys:
            return AccountingSample(taken_at=self._ports.clock.now(), is_complete=True, attempts=())
        job_ids = {job_key.job_id for job_key in job_keys}
        since = min(
            (jobs[job_id].submitted_at for job_id in job_ids & jobs.keys()), default=head.timestamp
        )
        try:
            return self._ports.accounting.list_records(job_ids, since=since - ACCOUNTING_MARGIN_S)
        except (Transient, UnexpectedOutput) as error:
            log.warning("accounting_unanswered", code=error.code, reason=str(error))
            return None

    def _keys_to_account(self, live: LiveSample | None) -> list[JobKey]:
        """Return the open jobs that slurmdbd must be asked about.

        These are the jobs that slurmctld does not list as alive and, once a minute, all open jobs:
        after a crash slurmctld may list a job that has ended. A node's report of the end also makes
        the job one of them at once.
        """
        memory, now = self._memory, self._ports.clock.now()
        alive: set[JobKey | None] = set()
        if live is not None:
            ended = _ended_attempts(memory.reports)
            for attempt in live.attempts:
                if attempt.is_alive and (attempt.slurm_job_id, attempt.uid) not in ended:
                    alive.add(attempt.job_key)
        is_recent = 0 <= now - memory.all_accounted_at < ACCOUNT_ALL_EVERY_S
        if not is_recent:  # also after the clock was set back
            memory.all_accounted_at = now
            alive = set()
        return [job_key for job_key in memory.records.by_job_key if job_key not in alive]

    def _pull_reports(self) -> None:
        """Fetch all new reports of the plugins.

        Without the reports, the supervisor has one source less for the bills.
        """
        if self._ports.reports is None:
            return
        memory = self._memory
        try:
            # One answer holds a limited number of reports. A bill could be too high before the last
            # report has arrived.
            while new := self._ports.reports.pull(after=memory.report_sequence, wait_s=0):
                memory.reports.extend(new)
                memory.report_sequence = max(report.sequence for report in new)
        except Transient as error:
            log.warning("reports_unanswered", code=error.code, reason=str(error))
        horizon = self._ports.clock.now() - REPORT_MEMORY_S
        memory.reports = [report for report in memory.reports if report.occurred_at > horizon]

    def _try(self, name: str, act: Callable[[], None]) -> None:
        """Perform an action. A failure is logged; the next tick plans the action again."""
        try:
            act()
        except GridsteadError as error:
            log.warning("action_failed", action=name, code=error.code, reason=str(error))

    def _put(self, actions: Sequence[Put]) -> None:
        """Store calls in the outbox in one write, or one by one if that write fails.

        ``services/transactions/sender.py`` sends them. One write lets it find all calls in the same
        tick.
        """
        for action in actions:
            self._failpoint(f"before_{name_of(action.call)}")
        try:
            self._ports.outbox.put_all([(action.key, action.call) for action in actions])
        except GridsteadError:
            for action in actions:
                put = partial(self._ports.outbox.put, action.key, action.call)
                self._try(Put.__name__, put)
        for action in actions:
            log.info("call_queued", key=action.key)

    def _act(self, action: Note | Cancel | Extend) -> None:
        match action:
            case Note(entry=entry):
                self._note([entry])
                log.info(
                    "job_noted",
                    job_id=entry.job_key.job_id,
                    state=entry.kind.value,
                    reason=entry.reason,
                )
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


def _ended_attempts(reports: Iterable[NodeReport]) -> set[tuple[int, int]]:
    """Return (Slurm job id, uid) of the attempts whose end a node has reported."""
    return {(report.slurm_job_id, report.uid) for report in reports if report.event == "end"}


def _live_job_ids(live: LiveSample | None) -> set[JobId]:
    """Return the ids in the job keys of live attempts, also those of other grids."""
    job_ids: set[JobId] = set()
    for attempt in () if live is None else live.attempts:
        if attempt.is_alive and attempt.job_key is not None:
            job_ids.add(attempt.job_key.job_id)
    return job_ids
