# SPDX-License-Identifier: Apache-2.0
"""A provider's site, managed from the machine that runs Ansible.

The service applies the inventory, verifies the site, previews changes and measures drift. It
records every run, including runs that fail or are interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gridstead.domain.site.playbook import (
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
from gridstead.domain.site.run_record import Circumstances, RunRecord, to_record
from gridstead.domain.site.verification import Verification, to_verification
from gridstead.domain.slurm.hostlist import expand
from gridstead.errors import ConfigError, SiteUnreachable, UnexpectedOutput
from gridstead.ports.clock import Clock
from gridstead.ports.site import DriftMetrics, Playbooks, RunRecords, Stop

APPLY, VERIFY, PLAN = "playbooks/site.yml", "playbooks/verify.yml", "playbooks/plan.yml"
PRINTED_LINES_MAX = 20  # lines that an error quotes of a run that failed before its first task
JOB_FIELDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RunObserver:
    """How the caller follows a run and stops it.

    Attributes:
        notify: Called with each event as it arrives.
        stop: The caller's request to stop the run.
    """

    notify: Callable[[PlaybookEvent], None]
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAuthor:
    """Who starts runs, and from which checkout.

    Attributes:
        by: As ``user@machine``.
        commit: Commit of the checkout.
    """

    by: str
    commit: str


class SiteService:
    """Runs a site's playbooks and records the runs.

    Args:
        playbooks: Runs a playbook.
        records: Stores the records of runs.
        clock: Wall time.
        author: Who starts the runs.
    """

    def __init__(
        self, playbooks: Playbooks, records: RunRecords, clock: Clock, author: RunAuthor
    ) -> None:
        self._playbooks = playbooks
        self._records = records
        self._clock = clock
        self._author = author

    def apply(self, request: PlaybookRequest, observer: RunObserver) -> RunRecord:
        """Bring the site to the state that the inventory describes, and return the run's record.

        Args:
            request: Inventory, limit and tags; the service sets the playbook.
            observer: Follows the run.

        Raises:
            ConfigError: If the run failed and the operator must act.
            SiteUnreachable: If hosts did not answer and nothing else failed.
        """
        run, record = self._run("apply", replace(request, playbook=APPLY), observer)
        check(run, record)
        return record

    def verify(
        self, request: PlaybookRequest, observer: RunObserver
    ) -> tuple[RunRecord, Verification | None]:
        """Verify the site and return the run's record and the result.

        The result is None if the run was interrupted. Nothing on the site changes.

        Raises:
            ConfigError: If the verification could not run.
            SiteUnreachable: If no host answered.
        """
        run, record = self._run("verify", replace(request, playbook=VERIFY), observer)
        if run.report is None:
            check(run, record)
            return record, None
        return record, to_verification(run.report)

    def plan_site(
        self, request: PlaybookRequest, observer: RunObserver
    ) -> tuple[RunRecord, SitePlan | None]:
        """Return the run's record and what ``apply`` would change now.

        The plan is None if the run was interrupted. Nothing on the site changes.

        Raises:
            ConfigError: If the check run failed and the operator must act.
            SiteUnreachable: If hosts did not answer and nothing else failed.
        """
        run, record = self._run("plan", replace(request, playbook=APPLY, check=True), observer)
        check(run, record)
        if run.outcome is RunOutcome.INTERRUPTED:
            return record, None
        if not effects(run.events):
            return record, plan_site(run.events, ())
        jobs_request = replace(request, playbook=PLAN, limit=None, tags=None)
        jobs_run = self._playbooks.run(jobs_request, notify=observer.notify, stop=observer.stop)
        if jobs_run.outcome is RunOutcome.INTERRUPTED:
            return replace(record, outcome=jobs_run.outcome), None
        jobs = None if jobs_run.report is None else to_jobs(jobs_run.report)
        return record, plan_site(run.events, jobs)

    def drift(
        self, request: PlaybookRequest, observer: RunObserver, metrics: DriftMetrics | None
    ) -> tuple[RunRecord, Mapping[str, int] | None]:
        """Return the run's record and, by host, how many tasks of ``apply`` would change something.

        The counts are None if the run was interrupted. Nothing on the site changes. A failed check
        run is published too, before it is raised as an error.

        Raises:
            ConfigError: If the check run failed and the operator must act.
            SiteUnreachable: If hosts did not answer and nothing else failed.
        """
        run, record = self._run("drift", replace(request, playbook=APPLY, check=True), observer)
        if run.outcome is RunOutcome.INTERRUPTED:
            return record, None
        changes = tally(run.events) if run.outcome is RunOutcome.SUCCEEDED else None
        if metrics is not None:
            metrics.publish(changes, checked_at=record.circumstances.ended_at)
        check(run, record)
        return record, changes

    def runs(self) -> tuple[RunRecord, ...]:
        """Return the records of all runs, newest first."""
        return self._records.all()

    def _run(
        self, command: str, request: PlaybookRequest, observer: RunObserver
    ) -> tuple[PlaybookRun, RunRecord]:
        started_at = self._clock.now()
        run = self._playbooks.run(request, notify=observer.notify, stop=observer.stop)
        circumstances = Circumstances(
            by=self._author.by,
            commit=self._author.commit,
            started_at=started_at,
            ended_at=self._clock.now(),
        )
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_at))
        record = to_record(f"{stamp}-{command}", command, request, run, circumstances)
        self._records.add(record)
        return run, record


def check(run: PlaybookRun, record: RunRecord) -> None:
    """Return if a run succeeded or was interrupted.

    Raises:
        ConfigError: If the run failed and the operator must act.
        SiteUnreachable: If hosts did not answer and nothing else failed.
    """
    if run.outcome is not RunOutcome.FAILED:
        return
    failed = failures(run.events)
    if not failed:
        raise ConfigError("Ansible could not start", detail=_last_printed_lines(run))
    detail = "\n".join(f"{failure.host}: {failure.task}: {failure.message}" for failure in failed)
    if all(failure.outcome is TaskOutcome.UNREACHABLE for failure in failed):
        hint = "Check that the hosts are on and that `ssh HOST` works from here, then run it again."
        raise SiteUnreachable(f"could not reach {_hosts(failed)}", detail=detail, hint=hint)
    hint = "Fix the cause and run it again: completed tasks stay in effect."
    if record.waiting:
        waiting = "; ".join(f"{host}: {', '.join(names)}" for host, names in record.waiting.items())
        hint += f" These handlers did not run, although their settings changed: {waiting}."
    raise ConfigError(
        f"could not apply the inventory to {_hosts(failed)}", detail=detail, hint=hint
    )


def to_jobs(report: Mapping[str, Any]) -> tuple[RunningJob, ...]:
    """Return the running jobs in a report of playbooks/plan.yml.

    A line of the report is a line of squeue: id|user|end|nodes.

    Raises:
        UnexpectedOutput: If a line has another form.
    """
    jobs = []
    for line in report.get("squeue", ()):
        fields = str(line).split("|")
        if len(fields) != JOB_FIELDS:
            raise UnexpectedOutput("squeue", str(line))
        number, user, ends_at, nodes = fields
        jobs.append(RunningJob(id=number, user=user, ends_at=ends_at, nodes=expand(nodes)))
    return tuple(jobs)


def _last_printed_lines(run: PlaybookRun) -> str | None:
    texts = [event.text for event in run.events if isinstance(event, PrintedText)]
    lines = "\n".join(texts).splitlines()
    return "\n".join(lines[-PRINTED_LINES_MAX:]) or None


def _hosts(failed: tuple[HostFinished, ...]) -> str:
    return ", ".join(failure.host for failure in failed)
