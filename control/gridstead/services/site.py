# SPDX-License-Identifier: Apache-2.0
"""A provider's site, seen from the machine that runs Ansible: apply what the inventory says,
verify, plan, tell drift.

Every run is recorded, also one that fails or is interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gridstead.domain.hostlist import expand
from gridstead.domain.playbook import (
    HostFinished,
    PlaybookEvent,
    PlaybookRequest,
    PlaybookRun,
    PrintedText,
    RunningJob,
    RunOutcome,
    SitePlan,
    TaskOutcome,
    effects,
    failures,
    plan_site,
    tally,
)
from gridstead.domain.run_record import Circumstances, RunRecord, to_record
from gridstead.domain.verification import Verification, to_verification
from gridstead.errors import ConfigError, SiteUnreachable, UnexpectedOutput
from gridstead.ports.clock import Clock
from gridstead.ports.playbooks import DriftMetrics, Playbooks, RunRecords, Stop

APPLY, VERIFY, PLAN = "playbooks/site.yml", "playbooks/verify.yml", "playbooks/plan.yml"
SAID_MAX = 20  # lines of what Ansible said before its first task
JOB_FIELDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who watches a run.

    Attributes:
        tell: Called with each event as it comes.
        stop: A wish to end it.
    """

    tell: Callable[[PlaybookEvent], None]
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAuthor:
    """Who runs things, and from what.

    Attributes:
        by: As ``user@machine``.
        commit: Commit of the checkout.
    """

    by: str
    commit: str


class SiteService:
    """A site, by its playbooks.

    Args:
        playbooks: Runs them.
        records: Where runs are remembered.
        clock: Wall time.
        caller: Who calls.
    """

    def __init__(
        self, playbooks: Playbooks, records: RunRecords, clock: Clock, caller: RunAuthor
    ) -> None:
        self._playbooks, self._records, self._clock, self._caller = (
            playbooks,
            records,
            clock,
            caller,
        )

    def apply(self, order: PlaybookRequest, watch: Watch) -> RunRecord:
        """Make the site what the inventory says, and return the record of it.

        Args:
            order: Inventory, limit and tags; the playbook is ours.
            watch: Who watches.

        Raises:
            ConfigError: The run failed; the operator must act.
            SiteUnreachable: Hosts did not answer, and nothing else is wrong.
        """
        run, record = self._run("apply", replace(order, playbook=APPLY), watch)
        check(run, record)
        return record

    def verify(self, order: PlaybookRequest, watch: Watch) -> tuple[RunRecord, Verification | None]:
        """Look at everything and change nothing; return what was found, None if the run was
        interrupted.

        Raises:
            ConfigError: It could not be looked at all.
            SiteUnreachable: No host answered.
        """
        run, record = self._run("verify", replace(order, playbook=VERIFY), watch)
        if run.report is None:
            check(run, record)
            return record, None
        return record, to_verification(run.report)

    def plan_site(self, order: PlaybookRequest, watch: Watch) -> tuple[RunRecord, SitePlan | None]:
        """Return what ``apply`` would change now, None if the run was interrupted. Changes nothing.

        Raises:
            ConfigError: The check run failed; the operator must act.
            SiteUnreachable: Hosts did not answer, and nothing else is wrong.
        """
        run, record = self._run("plan", replace(order, playbook=APPLY, check=True), watch)
        check(run, record)
        if run.outcome is RunOutcome.INTERRUPTED:
            return record, None
        if not effects(run.events):
            return record, plan_site(run.events, ())
        asked = self._playbooks.run(
            replace(order, playbook=PLAN, limit=None, tags=None), tell=watch.tell, stop=watch.stop
        )
        if asked.outcome is RunOutcome.INTERRUPTED:
            return replace(record, outcome=asked.outcome), None
        return record, plan_site(
            run.events, None if asked.report is None else to_jobs(asked.report)
        )

    def drift(
        self, order: PlaybookRequest, watch: Watch, metrics: DriftMetrics | None
    ) -> tuple[RunRecord, Mapping[str, int] | None]:
        """Return how many tasks of ``apply`` would change something on each host, None if the run
        was interrupted.

        Changes nothing. A run that could not look is published as well, before it is an error.

        Raises:
            ConfigError: The check run failed; the operator must act.
            SiteUnreachable: Hosts did not answer, and nothing else is wrong.
        """
        run, record = self._run("drift", replace(order, playbook=APPLY, check=True), watch)
        if run.outcome is RunOutcome.INTERRUPTED:
            return record, None
        found = tally(run.events) if run.outcome is RunOutcome.SUCCEEDED else None
        if metrics is not None:
            metrics.publish(found, checked_at=record.circumstances.ended_at)
        check(run, record)
        return record, found

    def runs(self) -> tuple[RunRecord, ...]:
        """Return what was run so far, the newest first."""
        return self._records.all()

    def _run(
        self, command: str, order: PlaybookRequest, watch: Watch
    ) -> tuple[PlaybookRun, RunRecord]:
        started_at = self._clock.now()
        run = self._playbooks.run(order, tell=watch.tell, stop=watch.stop)
        circumstances = Circumstances(
            by=self._caller.by,
            commit=self._caller.commit,
            started_at=started_at,
            ended_at=self._clock.now(),
        )
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_at))
        record = to_record(f"{stamp}-{command}", command, order, run, circumstances)
        self._records.add(record)
        return run, record


def check(run: PlaybookRun, record: RunRecord) -> None:
    """Do nothing if a run succeeded or was interrupted.

    Raises:
        ConfigError: It failed; the operator must act.
        SiteUnreachable: Hosts did not answer, and nothing else is wrong.
    """
    if run.outcome is not RunOutcome.FAILED:
        return
    failed = failures(run.events)
    if not failed:
        said = [event.text for event in run.events if isinstance(event, PrintedText)]
        raise ConfigError(
            "Ansible could not begin",
            detail="\n".join("\n".join(said).splitlines()[-SAID_MAX:]) or None,
        )
    detail = "\n".join(f"{one.host}: {one.task}: {one.message}" for one in failed)
    if all(one.outcome is TaskOutcome.UNREACHABLE for one in failed):
        hint = "Are they on, and does `ssh HOST` work from here? Then run it again."
        raise SiteUnreachable(f"could not reach {_names(failed)}", detail=detail, hint=hint)
    hint = "Mend it and run it again: what was done stays done."
    if record.waiting:
        waits = "; ".join(f"{host}: {', '.join(names)}" for host, names in record.waiting.items())
        hint += f" Not restarted yet, although their settings changed: {waits}."
    raise ConfigError(
        f"could not bring {_names(failed)} to what the inventory says", detail=detail, hint=hint
    )


def to_jobs(report: Mapping[str, Any]) -> tuple[RunningJob, ...]:
    """Return the jobs that playbooks/plan.yml reports, as squeue printed them: id|user|end|nodes.

    Raises:
        UnexpectedOutput: A line has another form.
    """
    jobs = []
    for line in report.get("squeue", ()):
        fields = str(line).split("|")
        if len(fields) != JOB_FIELDS:
            raise UnexpectedOutput("squeue", str(line))
        number, user, ends_at, nodes = fields
        jobs.append(RunningJob(id=number, user=user, ends_at=ends_at, nodes=expand(nodes)))
    return tuple(jobs)


def _names(failed: tuple[HostFinished, ...]) -> str:
    return ", ".join(one.host for one in failed)
