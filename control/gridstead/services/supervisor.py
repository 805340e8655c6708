# SPDX-License-Identifier: Apache-2.0
"""The supervisor: claims jobs, runs them in Slurm, settles them.

A tick gathers one snapshot, has ``domain.reconcile.plan`` decide, and acts. The journal is written before and after
each act that leaves this process, so a crash on any line leaves a plan whose rest is done by the next start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from gridstead.domain.actions import Cancel, Extend, Note, Put, Submit
from gridstead.domain.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.events import Event, EventKind
from gridstead.domain.ids import Proof
from gridstead.domain.job import Block, Job
from gridstead.domain.journal import Entry, EntryKind, Records
from gridstead.domain.lifecycle import JobState
from gridstead.domain.reconcile import is_claimed, knows_claim, plan
from gridstead.domain.sending import SendState
from gridstead.domain.snapshot import Rules, Snapshot
from gridstead.errors import GridsteadError, Transient, UnexpectedOutput
from gridstead.ports import Clock, Journal, Ledger, Outbox, Reports, Scheduler, ScriptSource
from gridstead.services.follower import Follower
from gridstead.services.submitter import Submitter
from gridstead.services.waypoint import ignore

log = structlog.get_logger()

REPORT_MEMORY_S = 24 * 3600
ACCOUNTING_MARGIN_S = 3600
ASK_ALL_EVERY_S = 60


@dataclass(slots=True, kw_only=True)
class Peers:
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

    records: Records = field(default_factory=Records)
    reports: list[NodeReport] = field(default_factory=list)
    report_sequence: int = 0
    asked_all_at: int = 0
    unclaimed_since: dict[Proof, int] = field(default_factory=dict)


class Supervisor:
    """Runs the jobs that the chain gives to one provider.

    Args:
        peers: The outside world.
        rules: What the operator decided.
        submissions_at_once: How many jobs are fetched and submitted side by side.
        at: Called with the name of each boundary of a job's path, for tests that crash there.
    """

    def __init__(
        self, peers: Peers, rules: Rules, *, submissions_at_once: int = 1, at: Callable[[str], None] = ignore
    ) -> None:
        self._peers = peers
        self._rules = rules
        self._at = at
        self._noting = threading.Lock()
        self._submitter = Submitter(
            clock=peers.clock,
            scheduler=peers.scheduler,
            scripts=peers.scripts,
            note=self._note,
            at=at,
            at_once=submissions_at_once,
        )
        self._memory = _Memory()
        self._memory.records.extend((*peers.journal.undone_entries(), *peers.journal.open_entries()))

    def tick(self) -> None:
        """Bring the cluster and the chain one step closer to each other.

        Raises:
            GridsteadError: The chain did not answer, so nothing was decided. Failures of single jobs are logged.
        """
        self._peers.follower.follow(self._remember_claims)
        snapshot = self._gather()
        actions = plan(snapshot, self._rules)
        for action in actions:
            if not isinstance(action, Submit | Put):
                self._try(type(action).__name__, partial(self._act, action))
        self._put([action for action in actions if isinstance(action, Put)])
        # Last, as they take longest. How many there are at once is a matter of the claim limit.
        self._submitter.submit([action for action in actions if isinstance(action, Submit)])
        if actions:
            log.info("tick_finished", block=snapshot.head.number, actions=len(actions), jobs=len(snapshot.records))

    def _remember_claims(self, events: tuple[Event, ...], head: Block) -> None:
        """Open a record for each hot job that the chain gave to us, as it is at the block that the events lead to."""
        ours = {
            event.job_number
            for event in events
            if event.kind is EventKind.JOB_CLAIMED and event.provider == self._rules.provider
        }
        numbers = {number for number in ours if number is not None}
        if not numbers:
            return
        jobs = self._peers.ledger.jobs(numbers, at=head)
        claimed = [
            Entry(proof=job.proof, kind=EntryKind.CLAIMED, at=self._claimed_at(job))
            for job in jobs.values()
            if is_claimed(job, job.proof, self._rules.provider)
        ]
        self._note(e for e in claimed if e.proof not in self._memory.records.by_proof)
        self._at("claimed")

    def _claimed_at(self, job: Job) -> int:
        block = self._peers.ledger.block(job.state_block) if job.state is JobState.SCHEDULED else None
        return block.timestamp if block else job.submitted_at

    def _note(self, entries: Iterable[Entry]) -> None:
        new = tuple(entries)
        if not new:
            return
        with self._noting:
            self._peers.journal.append(new)
            self._memory.records.extend(new)

    def _gather(self) -> Snapshot:
        peers, records = self._peers, self._memory.records.by_proof
        live = self._ask_live()
        head = peers.ledger.head()
        numbers = {proof.job_id.number for proof in records} | _numbers_alive(live, self._rules)
        jobs = dict(peers.ledger.jobs(numbers, at=head)) if numbers else {}
        self._pull_reports()
        return Snapshot(
            now=peers.clock.now(),
            head=head,
            jobs=jobs,
            queues=peers.ledger.queue_sizes(self._rules.provider, at=head),
            records=dict(records),
            live=live,
            accounting=self._ask_accounting(live, jobs, head),
            reports=tuple(self._memory.reports),
            open_keys=frozenset(e.key for e in peers.outbox.open_entries() if e.state is not SendState.MINED),
            unclaimed_since=self._note_unclaimed(jobs, head),
        )

    def _note_unclaimed(self, jobs: Mapping[int, Job], head: Block) -> dict[Proof, int]:
        """Remember since when the chain has not given us an open job; a start of this process begins to count anew."""
        before = self._memory.unclaimed_since
        self._memory.unclaimed_since = {
            proof: min(before.get(proof, head.number), head.number)
            for proof, record in self._memory.records.by_proof.items()
            if (job := jobs.get(proof.job_id.number)) is None or not is_claimed(job, proof, self._rules.provider)
            if knows_claim(record, head)
        }
        return self._memory.unclaimed_since

    def _ask_live(self) -> LiveSample | None:
        """Return what slurmctld lists, dated by our own clock and by the question: the answer may have been long."""
        asked_at = self._peers.clock.now()
        try:
            return replace(self._peers.scheduler.live(), taken_at=asked_at)
        except (Transient, UnexpectedOutput) as error:
            log.warning("slurm_unanswered", code=error.code, reason=str(error))
            return None

    def _ask_accounting(self, live: LiveSample | None, jobs: dict[int, Job], head: Block) -> AccountingSample | None:
        """Ask slurmdbd about the open jobs that slurmctld does not list as alive, and now and then about all.

        A slurmctld that crashed may list what has ended; a node's report of the end has slurmdbd asked at once.
        """
        memory, now = self._memory, self._peers.clock.now()
        ended = {(report.slurm_job_id, report.uid) for report in memory.reports if report.event == "end"}
        alive = {a.proof for a in live.attempts if a.alive and (a.slurm_job_id, a.uid) not in ended} if live else set()
        if not 0 <= now - memory.asked_all_at < ASK_ALL_EVERY_S:  # or the clock was set back
            memory.asked_all_at = now
            alive = set()
        open_proofs = [proof for proof in self._memory.records.by_proof if proof not in alive]
        if not open_proofs:
            return AccountingSample(taken_at=self._peers.clock.now(), complete=True, attempts=())
        submitted = [jobs[p.job_id.number].submitted_at for p in open_proofs if p.job_id.number in jobs]
        since = min(submitted, default=head.timestamp) - ACCOUNTING_MARGIN_S
        try:
            return self._peers.scheduler.accounting([p.job_id.slurm_name for p in open_proofs], since=since)
        except (Transient, UnexpectedOutput) as error:
            log.warning("accounting_unanswered", code=error.code, reason=str(error))
            return None

    def _pull_reports(self) -> None:
        """Fetch all that is new of the plugins' reports; without them bills only lose a second witness."""
        if self._peers.reports is None:
            return
        memory = self._memory
        try:
            # One answer holds so many; a bill made before the last of them could be too high.
            while new := self._peers.reports.pull(after=memory.report_sequence, wait_s=0):
                memory.reports.extend(new)
                memory.report_sequence = max(report.sequence for report in new)
        except Transient as error:
            log.warning("reports_unanswered", code=error.code, reason=str(error))
        horizon = self._peers.clock.now() - REPORT_MEMORY_S
        memory.reports = [report for report in memory.reports if report.at > horizon]

    def _try(self, name: str, act: Callable[[], None]) -> None:
        """Act; a failure is logged, and what was to be done is planned again."""
        try:
            act()
        except GridsteadError as error:
            log.warning("action_failed", action=name, code=error.code, reason=str(error))

    def _put(self, wanted: Sequence[Put]) -> None:
        """Store calls together: one write, and the sender finds all of them at once. One by one if that fails."""
        for one in wanted:
            self._at(f"before_{type(one.call).__name__}")
        try:
            self._peers.outbox.put_all([(one.key, one.call) for one in wanted])
        except GridsteadError:
            for one in wanted:
                self._try(Put.__name__, partial(self._peers.outbox.put, one.key, one.call))
        for one in wanted:
            log.info("call_queued", key=one.key)

    def _act(self, action: Note | Cancel | Extend) -> None:
        match action:
            case Note(entry=entry):
                self._note([entry])
                log.info("job_noted", job_id=entry.proof.job_id.number, state=entry.kind.value, reason=entry.reason)
            case Cancel(slurm_job_id=slurm_job_id, proof=proof, reason=reason):
                self._peers.scheduler.cancel(slurm_job_id, proof=str(proof))
                log.info("attempt_cancelled", job_id=proof.job_id.number, slurm_job_id=slurm_job_id, reason=reason)
            case Extend(slurm_job_id=slurm_job_id, proof=proof, time_limit_min=limit):
                self._peers.scheduler.extend(slurm_job_id, proof=str(proof), time_limit_min=limit)
                log.info("attempt_extended", job_id=proof.job_id.number, slurm_job_id=slurm_job_id)


def _numbers_alive(live: LiveSample | None, rules: Rules) -> set[int]:
    """Return the job numbers that live attempts claim to be, for our contracts."""
    proofs: set[Proof] = {a.proof for a in live.attempts if a.alive and a.proof} if live else set()
    ours = (rules.chain_id, rules.contract)
    return {p.job_id.number for p in proofs if (p.job_id.chain_id, p.job_id.contract) == ours}
