# SPDX-License-Identifier: Apache-2.0
"""The site service runs playbooks on the site of a provider.

It applies the inventory, verifies the site, plans changes and measures drift. It records each of
these runs, including runs that fail or are interrupted. The query for running jobs, which is part
of a plan, has no record of its own.
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
    count_changes,
    effects,
    failures,
    plan_site,
)
from gridstead.domain.site.run_record import Circumstances, RunRecord, to_run_record
from gridstead.domain.site.verification import Verification, to_verification
from gridstead.domain.slurm.hostlist import expand_hostlist
from gridstead.errors import ConfigError, SiteUnreachable, UnexpectedOutput
from gridstead.ports.clock import Clock
from gridstead.ports.site import DriftMetrics, Playbooks, RunRecords, Stop

APPLY = "playbooks/site.yml"
VERIFY = "playbooks/verify.yml"
PLAN = "playbooks/plan.yml"
MAX_QUOTED_LINES = 20  # the last lines of a run that failed before its first task
FIELDS_PER_JOB = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RunObserver:
    """The caller's functions to follow and to stop a run.

    Attributes:
        notify: Called with each event when it happens.
        stop: The requests of the caller to stop the run.
    """

    notify: Callable[[PlaybookEvent], None]
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAuthor:
    """The user who starts runs, and the checkout.

    Attributes:
        by: The user and the machine, as ``user@machine``.
        commit: The commit of the checkout.
    """

    by: str
    commit: str


class SiteService:
    """Runs the playbooks of a site and records the runs.

    Args:
        playbooks: The playbooks of the checkout.
        records: The stored records.
        clock: The wall clock.
        author: The user who starts the runs.
    """

    def __init__(
        self, playbooks: Playbooks, records: RunRecords, clock: Clock, author: RunAuthor
    ) -> None:
        self._playbooks = playbooks
        self._records = records
        self._clock = clock
        self._author = author

    def apply(self, request: PlaybookRequest, observer: RunObserver) -> RunRecord:
        """Bring the site to the state that the inventory describes. Return the record of the run.

        Args:
            request: The inventory, limit and tags. The service sets the playbook.
            observer: Follows and stops the run.

        Raises:
            ConfigError: If the run failed and the operator must act.
            SiteUnreachable: If hosts did not answer and nothing else failed.
        """
        run, record = self._run("apply", replace(request, playbook=APPLY), observer)
        raise_if_failed(run, record)
        return record

    def verify(
        self, request: PlaybookRequest, observer: RunObserver
    ) -> tuple[RunRecord, Verification | None]:
        """Verify the site. Return the record of the run and the verification.

        The verification is None if the run was interrupted. The site is not changed.

        Raises:
            ConfigError: If the verification could not run.
            SiteUnreachable: If no host answered.
        """
        run, record = self._run("verify", replace(request, playbook=VERIFY), observer)
        if run.report is None:
            raise_if_failed(run, record)
            return record, None
        return record, to_verification(run.report)

    def plan_site(
        self, request: PlaybookRequest, observer: RunObserver
    ) -> tuple[RunRecord, SitePlan | None]:
        """Plan what ``apply`` would change now. Return the record of the run and the plan.

        The plan is None if the run was interrupted. The site is not changed.

        Raises:
            ConfigError: If the check run failed and the operator must act.
            SiteUnreachable: If hosts did not answer and nothing else failed.
        """
        run, record = self._run("plan", replace(request, playbook=APPLY, check=True), observer)
        raise_if_failed(run, record)
        if run.outcome is RunOutcome.INTERRUPTED:
            return record, None
        # Only hosts with an effect show their running jobs, so Slurm is not queried without
        # effects.
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
        """Count the tasks of ``apply`` that would change something. Publish the counts as metrics.

        Return the record of the run and the counts by host. The counts are None if the run was
        interrupted. If the check run fails, the failure is published before the error is raised.
        The site is not changed.

        Raises:
            ConfigError: If the check run failed and the operator must act.
            SiteUnreachable: If hosts did not answer and nothing else failed.
        """
        run, record = self._run("drift", replace(request, playbook=APPLY, check=True), observer)
        if run.outcome is RunOutcome.INTERRUPTED:
            return record, None
        has_succeeded = run.outcome is RunOutcome.SUCCEEDED
        changes = count_changes(run.events) if has_succeeded else None
        if metrics is not None:
            metrics.publish(changes, checked_at=record.circumstances.ended_at)
        raise_if_failed(run, record)
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
        record = to_run_record(f"{stamp}-{command}", command, request, run, circumstances)
        self._records.add(record)
        return run, record


def raise_if_failed(run: PlaybookRun, record: RunRecord) -> None:
    """Raise an error if a run failed. Return if it succeeded or was interrupted.

    Raises:
        ConfigError: If the run failed and the operator must act.
        SiteUnreachable: If hosts did not answer and nothing else failed.
    """
    if run.outcome is not RunOutcome.FAILED:
        return
    failed_tasks = failures(run.events)
    if not failed_tasks:
        raise ConfigError("Ansible could not start", detail=_last_printed_lines(run))
    detail = "\n".join(
        f"{failure.host}: {failure.task}: {failure.message}" for failure in failed_tasks
    )
    if all(failure.outcome is TaskOutcome.UNREACHABLE for failure in failed_tasks):
        hint = "Check that the hosts are on and that `ssh HOST` works from here, then run it again."
        raise SiteUnreachable(
            f"could not reach {_host_names(failed_tasks)}", detail=detail, hint=hint
        )
    hint = "Fix the cause and run it again: completed tasks stay in effect."
    if record.waiting:
        texts = [f"{host}: {', '.join(names)}" for host, names in record.waiting.items()]
        handlers = "; ".join(texts)
        hint += f" These handlers did not run, although their settings changed: {handlers}."
    raise ConfigError(
        f"could not apply the inventory to {_host_names(failed_tasks)}", detail=detail, hint=hint
    )


def to_jobs(report: Mapping[str, Any]) -> tuple[RunningJob, ...]:
    """Return the running jobs in a report of playbooks/plan.yml.

    Each line of squeue in the report is: id|user|end|nodes.

    Raises:
        UnexpectedOutput: If a line has another format.
    """
    jobs = []
    for line in report.get("squeue", ()):
        fields = str(line).split("|")
        if len(fields) != FIELDS_PER_JOB:
            raise UnexpectedOutput("squeue", str(line))
        number, user, ends_at, nodes = fields
        jobs.append(RunningJob(id=number, user=user, ends_at=ends_at, nodes=expand_hostlist(nodes)))
    return tuple(jobs)


def _last_printed_lines(run: PlaybookRun) -> str | None:
    texts = [event.text for event in run.events if isinstance(event, PrintedText)]
    lines = "\n".join(texts).splitlines()
    return "\n".join(lines[-MAX_QUOTED_LINES:]) or None


def _host_names(failed: tuple[HostFinished, ...]) -> str:
    return ", ".join(failure.host for failure in failed)
