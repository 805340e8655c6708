# SPDX-License-Identifier: Apache-2.0
"""Tests of the site service with fake playbooks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookRequest,
    PlaybookRun,
    PrintedText,
    RunEnded,
    RunOutcome,
    Task,
    TaskOutcome,
)
from gridstead.errors import ConfigError, SiteUnreachable, UnexpectedOutput
from gridstead.ports.site import Stop
from gridstead.services.site.site import (
    APPLY,
    PLAN,
    VERIFY,
    RunAuthor,
    RunObserver,
    SiteService,
    to_jobs,
)

OBSERVER = RunObserver(notify=lambda _event: None, stop=Stop())
REQUEST = PlaybookRequest(playbook="", inventory="/inv", limit="compute1", tags="slurm_configure")
SQUEUE_LINE = "12|0xab|2026-11-21T14:00:00|compute[1-2]"


def host_finished(host, outcome, message=""):
    """Return the event that reports the end of a task on a host."""
    task = Task(name="Configure x", role="slurm")
    return HostFinished(host=host, task=task, outcome=outcome, message=message)


def restart_finished(host, name):
    """Return the event that reports that a handler restarted a program on a host."""
    task = Task(name=f"Restart {name}", is_handler=True)
    return HostFinished(host=host, task=task, outcome=TaskOutcome.CHANGED)


def run(*events, outcome=RunOutcome.SUCCEEDED, pending_handlers=None, report=None):
    """Return the result of a playbook run."""
    return PlaybookRun(
        outcome=outcome, events=events, waiting=pending_handlers or {}, report=report
    )


class FakePlaybooks:
    """Returns the next prepared run for each request."""

    def __init__(self):
        self.prepared_runs = []
        self.requests = []

    def run(self, request, *, notify, stop):
        self.requests.append(request)
        return self.prepared_runs.pop(0)


class FakeRecords:
    """Stores records in memory."""

    def __init__(self):
        self.records = []

    def add(self, record):
        self.records.append(record)

    def all(self):
        return tuple(reversed(self.records))


class AdvancingClock:
    """A clock that advances by ten seconds each time it is read."""

    def __init__(self):
        self.seconds = 1_795_265_800

    def now(self):
        self.seconds += 10
        return self.seconds


@pytest.fixture
def playbooks():
    return FakePlaybooks()


@pytest.fixture
def site(playbooks):
    return SiteService(
        playbooks, FakeRecords(), AdvancingClock(), RunAuthor(by="me@here", commit="abc")
    )


def test_error_of_a_run_without_a_task_contains_the_output_of_ansible(site, playbooks):
    output = PrintedText(text="[ERROR]: no hosts\nto target")
    playbooks.prepared_runs = [run(output, outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError, match="could not start") as error:
        site.apply(REQUEST, OBSERVER)

    assert error.value.detail == "[ERROR]: no hosts\nto target"
    assert [record.outcome for record in site.runs()] == [RunOutcome.FAILED]


def test_run_whose_hosts_are_all_unreachable_raises_site_unreachable(site, playbooks):
    unreachable_event = host_finished("compute1", TaskOutcome.UNREACHABLE, "no route")
    run_ended = RunEnded(failed=frozenset({"compute1"}))
    playbooks.prepared_runs = [run(unreachable_event, run_ended, outcome=RunOutcome.FAILED)]

    with pytest.raises(SiteUnreachable, match="could not reach compute1"):
        site.apply(REQUEST, OBSERVER)


def test_error_contains_failed_tasks_messages_and_pending_handlers(site, playbooks):
    events = (
        host_finished("compute1", TaskOutcome.FAILED, "no room"),
        host_finished("db", TaskOutcome.UNREACHABLE, "no route"),
    )
    run_ended = RunEnded(failed=frozenset({"compute1", "db"}))
    playbooks.prepared_runs = [
        run(
            *events,
            run_ended,
            outcome=RunOutcome.FAILED,
            pending_handlers={"db": ("slurm_restart",)},
        )
    ]

    with pytest.raises(ConfigError, match="compute1, db") as error:
        site.apply(REQUEST, OBSERVER)

    assert error.value.detail.splitlines() == [
        "compute1: slurm: Configure x: no room",
        "db: slurm: Configure x: no route",
    ]
    assert "db: slurm_restart" in error.value.hint


def test_apply_runs_the_site_playbook_and_adds_a_record(site, playbooks):
    playbooks.prepared_runs = [run(host_finished("compute1", TaskOutcome.CHANGED))]

    record = site.apply(REQUEST, OBSERVER)

    assert playbooks.requests == [
        PlaybookRequest(playbook=APPLY, inventory="/inv", limit="compute1", tags="slurm_configure")
    ]
    assert record.id == "20261121T125650Z-apply"
    assert record.command == "apply"
    assert record.circumstances.by == "me@here"
    assert record.circumstances.ended_at - record.circumstances.started_at == 10
    assert record.changed == {"compute1": ("slurm: Configure x",)}
    assert site.runs() == (record,)


def test_interrupted_run_is_not_an_error(site, playbooks):
    playbooks.prepared_runs = [run(outcome=RunOutcome.INTERRUPTED)]

    record = site.apply(REQUEST, OBSERVER)

    assert record.outcome is RunOutcome.INTERRUPTED


def test_verify_returns_findings_although_the_playbook_failed(site, playbooks):
    finding = {"host": "a", "role": "munge", "what": "x", "seen": "y", "who": "grid", "hint": ""}
    report = {"looked_at": 2, "hosts": {}, "findings": [finding]}
    playbooks.prepared_runs = [run(outcome=RunOutcome.FAILED, report=report)]

    _, verification = site.verify(REQUEST, OBSERVER)

    (diagnostic,) = verification.diagnostics
    assert diagnostic.who == "grid"
    assert playbooks.requests[0].playbook == VERIFY


def test_verify_without_a_report_is_an_error(site, playbooks):
    playbooks.prepared_runs = [run(PrintedText(text="broken"), outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError):
        site.verify(REQUEST, OBSERVER)


def test_interrupted_verify_returns_no_verification(site, playbooks):
    playbooks.prepared_runs = [run(outcome=RunOutcome.INTERRUPTED)]

    _, verification = site.verify(REQUEST, OBSERVER)

    assert verification is None


def test_plan_runs_check_mode_and_then_reads_the_jobs_of_all_nodes(site, playbooks):
    restarted_unit = HostFinished(
        host="compute2",
        task=Task(name="Start slurmd"),
        outcome=TaskOutcome.CHANGED,
        targets=("slurmd",),
        unit_state="restarted",
    )
    playbooks.prepared_runs = [run(restarted_unit), run(report={"squeue": [SQUEUE_LINE]})]

    _, plan = site.plan_site(REQUEST, OBSERVER)

    check_run, jobs_run = playbooks.requests
    assert check_run == replace(REQUEST, playbook=APPLY, check=True)
    assert jobs_run.playbook == PLAN
    assert not jobs_run.check
    assert jobs_run.limit is None
    assert [str(effect) for effect in plan.effects] == ["restart slurmd"]
    assert [job.id for job in plan.jobs["compute2"]] == ["12"]


def test_jobs_of_a_plan_are_unknown_if_slurm_does_not_answer(site, playbooks):
    playbooks.prepared_runs = [run(restart_finished("a", "x")), run(outcome=RunOutcome.FAILED)]

    _, plan = site.plan_site(REQUEST, OBSERVER)

    assert plan.jobs is None


def test_plan_without_effects_does_not_read_jobs(site, playbooks):
    playbooks.prepared_runs = [run(host_finished("a", TaskOutcome.CHANGED))]

    _, plan = site.plan_site(REQUEST, OBSERVER)

    assert plan.jobs == {}


def test_interrupted_check_run_returns_no_plan(site, playbooks):
    playbooks.prepared_runs = [run(outcome=RunOutcome.INTERRUPTED)]

    _, plan = site.plan_site(REQUEST, OBSERVER)

    assert plan is None


def test_no_plan_is_returned_if_the_reading_of_jobs_is_interrupted(site, playbooks):
    playbooks.prepared_runs = [run(restart_finished("a", "x")), run(outcome=RunOutcome.INTERRUPTED)]

    record, plan = site.plan_site(REQUEST, OBSERVER)

    assert record.outcome is RunOutcome.INTERRUPTED
    assert plan is None


def test_failed_check_run_is_an_error(site, playbooks):
    failed_event = host_finished("a", TaskOutcome.FAILED, "x")
    run_ended = RunEnded(failed=frozenset({"a"}))
    playbooks.prepared_runs = [run(failed_event, run_ended, outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError):
        site.plan_site(REQUEST, OBSERVER)


def test_jobs_are_parsed_from_squeue_lines():
    (job,) = to_jobs({"squeue": [SQUEUE_LINE]})

    assert job.id == "12"
    assert job.user == "0xab"
    assert job.ends_at == "2026-11-21T14:00:00"
    assert job.nodes == ("compute1", "compute2")


def test_malformed_squeue_line_is_an_error():
    with pytest.raises(UnexpectedOutput):
        to_jobs({"squeue": ["12|x"]})


class FakeMetrics:
    """Records each call of publish."""

    def __init__(self):
        self.published = []

    def publish(self, task_counts, *, checked_at):
        self.published.append((task_counts, checked_at))


def test_drift_publishes_the_number_of_changed_tasks_of_each_host(site, playbooks):
    changed_event = host_finished("compute1", TaskOutcome.CHANGED)
    restart_event = restart_finished("compute1", "slurmd")
    unchanged_event = host_finished("db", TaskOutcome.OK)
    playbooks.prepared_runs = [run(changed_event, restart_event, unchanged_event)]
    metrics = FakeMetrics()

    record, changes = site.drift(REQUEST, OBSERVER, metrics)

    assert playbooks.requests == [replace(REQUEST, playbook=APPLY, check=True)]
    assert changes == {"compute1": 1, "db": 0}
    assert metrics.published == [(changes, record.circumstances.ended_at)]
    assert record.command == "drift"


def test_failed_drift_check_is_published_as_unknown(site, playbooks):
    unreachable_event = host_finished("compute1", TaskOutcome.UNREACHABLE, "no route")
    run_ended = RunEnded(failed=frozenset({"compute1"}))
    playbooks.prepared_runs = [run(unreachable_event, run_ended, outcome=RunOutcome.FAILED)]
    metrics = FakeMetrics()

    with pytest.raises(SiteUnreachable):
        site.drift(REQUEST, OBSERVER, metrics)

    ((task_counts, _checked_at),) = metrics.published
    assert task_counts is None


def test_interrupted_drift_check_publishes_nothing(site, playbooks):
    playbooks.prepared_runs = [run(outcome=RunOutcome.INTERRUPTED)]
    metrics = FakeMetrics()

    _, changes = site.drift(REQUEST, OBSERVER, metrics)

    assert changes is None
    assert metrics.published == []
