# SPDX-License-Identifier: Apache-2.0
"""The supervisor: claims jobs, runs them in Slurm, settles them.

A tick gathers one snapshot, has ``domain.reconcile.plan`` decide, and acts. The journal is written
before and after each act that leaves this process, so a crash on any line leaves a plan whose rest
is done by the next start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from gridstead.domain.actions import Cancel, Extend, Note, Put, Submit
from gridstead.domain.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.calls import name_of
from gridstead.domain.events import ChainEvent, ChainEventKind
from gridstead.domain.ids import JobKey
from gridstead.domain.job import Block, Job
from gridstead.domain.journal import EntryKind, JournalEntry, JournalRecords
from gridstead.domain.lifecycle import JobState
from gridstead.domain.reconcile import is_claimed, knows_claim, plan_jobs
from gridstead.domain.sending import SendState
from gridstead.domain.snapshot import Rules, Snapshot
from gridstead.errors import GridsteadError, Transient, UnexpectedOutput
from gridstead.ports import Clock, Journal, Ledger, Outbox, Reports, Scheduler, ScriptSource
from gridstead.services.failpoint import ignore
from gridstead.services.follower import Follower
from gridstead.services.submitter import Submitter

log = structlog.get_logger()

REPORT_MEMORY_S = 24 * 3600
ACCOUNTING_MARGIN_S = 3600
ASK_ALL_EVERY_S = 60


@dataclass(slots=True, kw_only=True)
class SupervisorPorts:
    """The ports a supervisor works through."""

    clock: Clock
    ledger: Ledger
    follower: Follower
    journal: Journal
    outbox: Outbox
    scheduler: Scheduler
    reports: Reports | None
    scripts: ScriptSource


@dataclass(slots=True)
class _Memory:
    """What may be lost at any moment: it is all read again."""

    records: JournalRecords = field(default_factory=JournalRecords)
    reports: list[NodeReport] = field(default_factory=list)
    report_sequence: int = 0
    asked_all_at: int = 0
    unclaimed_since: dict[JobKey, int] = field(default_factory=dict)


class Supervisor:
    """Runs the jobs that the chain gives to one provider.

    Args:
        ports: The outside world.
        rules: What the operator decided.
        submissions_at_once: How many jobs are fetched and submitted side by side.
        failpoint: Called with the name of each boundary of a job's path, for tests that crash
            there.
    """

    def __init__(
        self,
        ports: SupervisorPorts,
        rules: Rules,
        *,
        submissions_at_once: int = 1,
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
            at_once=submissions_at_once,
        )
        self._memory = _Memory()
        self._memory.records.extend(
            (*ports.journal.cancelled_entries(), *ports.journal.open_entries())
        )

    def tick(self) -> None:
        """Bring the cluster and the chain one step closer to each other.

        Raises:
            GridsteadError: The chain did not answer, so nothing was decided. Failures of single
                jobs are logged.
        """
        self._ports.follower.follow(self._remember_claims)
        snapshot = self._gather()
        actions = plan_jobs(snapshot, self._rules)
        for action in actions:
            if not isinstance(action, Submit | Put):
                self._try(type(action).__name__, partial(self._act, action))
        self._put([action for action in actions if isinstance(action, Put)])
        # Last, as they take longest. How many there are at once is a matter of the claim limit.
        self._submitter.submit([action for action in actions if isinstance(action, Submit)])
        if actions:
            log.info(
                "tick_finished",
                block=snapshot.head.number,
                actions=len(actions),
                jobs=len(snapshot.records),
            )

    def _remember_claims(self, events: tuple[ChainEvent, ...], head: Block) -> None:
        """Open a record for each hot job that the chain gave to us, as it is at the block that the
        events lead to.
        """
        ours = {
            event.job_number
            for event in events
            if event.kind is ChainEventKind.JOB_CLAIMED and event.provider == self._rules.provider
        }
        numbers = {number for number in ours if number is not None}
        if not numbers:
            return
        jobs = self._ports.ledger.jobs(numbers, at_block=head)
        claimed = [
            JournalEntry(
                job_key=job.job_key, kind=EntryKind.CLAIMED, occurred_at=self._claimed_at(job)
            )
            for job in jobs.values()
            if is_claimed(job, job.job_key, self._rules.provider)
        ]
        self._note(e for e in claimed if e.job_key not in self._memory.records.by_job_key)
        self._failpoint("claimed")

    def _claimed_at(self, job: Job) -> int:
        block = (
            self._ports.ledger.block(job.state_block) if job.state is JobState.SCHEDULED else None
        )
        return block.timestamp if block else job.submitted_at

    def _note(self, entries: Iterable[JournalEntry]) -> None:
        new = tuple(entries)
        if not new:
            return
        with self._noting:
            self._ports.journal.append(new)
            self._memory.records.extend(new)

    def _gather(self) -> Snapshot:
        ports, records = self._ports, self._memory.records.by_job_key
        live = self._ask_live()
        head = ports.ledger.head()
        numbers = {job_key.job_id.number for job_key in records} | _numbers_alive(live, self._rules)
        jobs = dict(ports.ledger.jobs(numbers, at_block=head)) if numbers else {}
        self._pull_reports()
        return Snapshot(
            now=ports.clock.now(),
            head=head,
            jobs=jobs,
            queues=ports.ledger.queue_sizes(self._rules.provider, at_block=head),
            records=dict(records),
            live=live,
            accounting=self._ask_accounting(live, jobs, head),
            reports=tuple(self._memory.reports),
            open_keys=frozenset(
                e.key for e in ports.outbox.open_entries() if e.state is not SendState.MINED
            ),
            unclaimed_since=self._note_unclaimed(jobs, head),
        )

    def _note_unclaimed(self, jobs: Mapping[int, Job], head: Block) -> dict[JobKey, int]:
        """Remember since when the chain has not given us an open job; a start of this process
        begins to count anew.
        """
        before = self._memory.unclaimed_since
        self._memory.unclaimed_since = {
            job_key: min(before.get(job_key, head.number), head.number)
            for job_key, record in self._memory.records.by_job_key.items()
            if (job := jobs.get(job_key.job_id.number)) is None
            or not is_claimed(job, job_key, self._rules.provider)
            if knows_claim(record, head)
        }
        return self._memory.unclaimed_since

    def _ask_live(self) -> LiveSample | None:
        """Return what slurmctld lists, dated by our own clock and by the question: the answer may
        have been long.
        """
        asked_at = self._ports.clock.now()
        try:
            return replace(self._ports.scheduler.live(), taken_at=asked_at)
        except (Transient, UnexpectedOutput) as error:
            log.warning("slurm_unanswered", code=error.code, reason=str(error))
            return None

    def _ask_accounting(
        self, live: LiveSample | None, jobs: dict[int, Job], head: Block
    ) -> AccountingSample | None:
        """Ask slurmdbd about the open jobs that slurmctld does not list as alive, and now and then
        about all.

        A slurmctld that crashed may list what has ended; a node's report of the end has slurmdbd
        asked at once.
        """
        memory, now = self._memory, self._ports.clock.now()
        ended = {
            (report.slurm_job_id, report.uid) for report in memory.reports if report.event == "end"
        }
        alive = (
            {a.job_key for a in live.attempts if a.alive and (a.slurm_job_id, a.uid) not in ended}
            if live
            else set()
        )
        if not 0 <= now - memory.asked_all_at < ASK_ALL_EVERY_S:  # or the clock was set back
            memory.asked_all_at = now
            alive = set()
        open_job_keys = [
            job_key for job_key in self._memory.records.by_job_key if job_key not in alive
        ]
        if not open_job_keys:
            return AccountingSample(taken_at=self._ports.clock.now(), complete=True, attempts=())
        submitted = [
            jobs[p.job_id.number].submitted_at for p in open_job_keys if p.job_id.number in jobs
        ]
        since = min(submitted, default=head.timestamp) - ACCOUNTING_MARGIN_S
        try:
            return self._ports.scheduler.accounting(
                [p.job_id.slurm_name for p in open_job_keys], since=since
            )
        except (Transient, UnexpectedOutput) as error:
            log.warning("accounting_unanswered", code=error.code, reason=str(error))
            return None

    def _pull_reports(self) -> None:
        """Fetch all that is new of the plugins' reports; without them bills only lose a second
        witness.
        """
        if self._ports.reports is None:
            return
        memory = self._memory
        try:
            # One answer holds so many; a bill made before the last of them could be too high.
            while new := self._ports.reports.pull(after=memory.report_sequence, wait_s=0):
                memory.reports.extend(new)
                memory.report_sequence = max(report.sequence for report in new)
        except Transient as error:
            log.warning("reports_unanswered", code=error.code, reason=str(error))
        horizon = self._ports.clock.now() - REPORT_MEMORY_S
        memory.reports = [report for report in memory.reports if report.occurred_at > horizon]

    def _try(self, name: str, act: Callable[[], None]) -> None:
        """Act; a failure is logged, and what was to be done is planned again."""
        try:
            act()
        except GridsteadError as error:
            log.warning("action_failed", action=name, code=error.code, reason=str(error))

    def _put(self, wanted: Sequence[Put]) -> None:
        """Store calls together: one write, and the sender finds all of them at once. One by one if
        that fails.
        """
        for one in wanted:
            self._failpoint(f"before_{name_of(one.call)}")
        try:
            self._ports.outbox.put_all([(one.key, one.call) for one in wanted])
        except GridsteadError:
            for one in wanted:
                self._try(Put.__name__, partial(self._ports.outbox.put, one.key, one.call))
        for one in wanted:
            log.info("call_queued", key=one.key)

    def _act(self, action: Note | Cancel | Extend) -> None:
        match action:
            case Note(entry=entry):
                self._note([entry])
                log.info(
                    "job_noted",
                    job_id=entry.job_key.job_id.number,
                    state=entry.kind.value,
                    reason=entry.reason,
                )
            case Cancel(slurm_job_id=slurm_job_id, job_key=job_key, reason=reason):
                self._ports.scheduler.cancel(slurm_job_id, job_key=str(job_key))
                log.info(
                    "attempt_cancelled",
                    job_id=job_key.job_id.number,
                    slurm_job_id=slurm_job_id,
                    reason=reason,
                )
            case Extend(slurm_job_id=slurm_job_id, job_key=job_key, time_limit_min=limit):
                self._ports.scheduler.extend(
                    slurm_job_id, job_key=str(job_key), time_limit_min=limit
                )
                log.info(
                    "attempt_extended", job_id=job_key.job_id.number, slurm_job_id=slurm_job_id
                )


def _numbers_alive(live: LiveSample | None, rules: Rules) -> set[int]:
    """Return the job numbers that live attempts claim to be, for our contracts."""
    job_keys: set[JobKey] = (
        {a.job_key for a in live.attempts if a.alive and a.job_key} if live else set()
    )
    ours = (rules.chain_id, rules.contract)
    return {p.job_id.number for p in job_keys if (p.job_id.chain_id, p.job_id.contract) == ours}
