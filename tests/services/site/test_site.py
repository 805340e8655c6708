# SPDX-License-Identifier: Apache-2.0
"""The site service, on fake playbooks."""

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
LINE = "12|0xab|2026-11-21T14:00:00|compute[1-2]"


def ended(host, outcome, message="", *, name="Configure x"):
    return HostFinished(
        host=host, task=Task(name=name, role="slurm"), outcome=outcome, message=message
    )


def run(*events, outcome=RunOutcome.SUCCEEDED, waiting=None, report=None):
    return PlaybookRun(outcome=outcome, events=events, waiting=waiting or {}, report=report)


class FakePlaybooks:
    """Returns the next prepared run for each request."""

    def __init__(self):
        self.results, self.requests = [], []

    def run(self, request, *, notify, stop):
        self.requests.append(request)
        return self.results.pop(0)


class FakeRecords:
    """Keeps records in memory."""

    def __init__(self):
        self.records = []

    def add(self, record):
        self.records.append(record)

    def all(self):
        return tuple(reversed(self.records))


class Clock:
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
    return SiteService(playbooks, FakeRecords(), Clock(), RunAuthor(by="me@here", commit="abc"))


def test_a_run_that_started_no_task_fails_with_ansibles_output_and_is_recorded(site, playbooks):
    playbooks.results = [
        run(PrintedText(text="[ERROR]: no hosts\nto target"), outcome=RunOutcome.FAILED)
    ]

    with pytest.raises(ConfigError, match="could not start") as error:
        site.apply(REQUEST, OBSERVER)

    assert error.value.detail == "[ERROR]: no hosts\nto target"
    assert [record.outcome for record in site.runs()] == [RunOutcome.FAILED]


def test_a_run_with_only_unreachable_hosts_raises_site_unreachable(site, playbooks):
    unreachable = ended("compute1", TaskOutcome.UNREACHABLE, "no route")
    playbooks.results = [
        run(unreachable, RunEnded(failed=frozenset({"compute1"})), outcome=RunOutcome.FAILED)
    ]

    with pytest.raises(SiteUnreachable, match="could not reach compute1"):
        site.apply(REQUEST, OBSERVER)


def test_a_failure_names_tasks_messages_and_handlers_that_did_not_run(site, playbooks):
    events = (
        ended("compute1", TaskOutcome.FAILED, "no room"),
        ended("db", TaskOutcome.UNREACHABLE, "no route"),
    )
    failed = RunEnded(failed=frozenset({"compute1", "db"}))
    playbooks.results = [
        run(*events, failed, outcome=RunOutcome.FAILED, waiting={"db": ("slurm_restart",)})
    ]

    with pytest.raises(ConfigError, match="compute1, db") as error:
        site.apply(REQUEST, OBSERVER)

    assert error.value.detail.splitlines() == [
        "compute1: slurm: Configure x: no room",
        "db: slurm: Configure x: no route",
    ]
    assert "db: slurm_restart" in error.value.hint


def test_apply_runs_the_requested_part_of_the_site_and_records_it(site, playbooks):
    playbooks.results = [run(ended("compute1", TaskOutcome.CHANGED))]

    record = site.apply(REQUEST, OBSERVER)

    assert playbooks.requests == [
        PlaybookRequest(playbook=APPLY, inventory="/inv", limit="compute1", tags="slurm_configure")
    ]
    assert (record.id, record.command, record.circumstances.by) == (
        "20261121T125650Z-apply",
        "apply",
        "me@here",
    )
    assert record.circumstances.ended_at - record.circumstances.started_at == 10
    assert record.changed == {"compute1": ("slurm: Configure x",)}
    assert site.runs() == (record,)


def test_an_interrupted_run_is_not_an_error(site, playbooks):
    playbooks.results = [run(outcome=RunOutcome.INTERRUPTED)]

    assert site.apply(REQUEST, OBSERVER).outcome is RunOutcome.INTERRUPTED


def test_verify_returns_its_findings_although_the_playbook_failed(site, playbooks):
    finding = {"host": "a", "role": "munge", "what": "x", "seen": "y", "who": "grid", "hint": ""}
    report = {"looked_at": 2, "hosts": {}, "findings": [finding]}
    playbooks.results = [run(outcome=RunOutcome.FAILED, report=report)]

    _, verification = site.verify(REQUEST, OBSERVER)

    assert [diagnostic.who for diagnostic in verification.diagnostics] == ["grid"]
    assert playbooks.requests[0].playbook == VERIFY


def test_verify_without_a_report_is_an_error(site, playbooks):
    playbooks.results = [run(PrintedText(text="broken"), outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError):
        site.verify(REQUEST, OBSERVER)


def test_an_interrupted_verify_returns_no_result(site, playbooks):
    playbooks.results = [run(outcome=RunOutcome.INTERRUPTED)]

    assert site.verify(REQUEST, OBSERVER)[1] is None


def test_plan_checks_the_site_and_then_reads_the_jobs_of_all_nodes(site, playbooks):
    started = HostFinished(
        host="compute2",
        task=Task(name="Start slurmd"),
        outcome=TaskOutcome.CHANGED,
        targets=("slurmd",),
        unit_state="restarted",
    )
    playbooks.results = [run(started), run(report={"squeue": [LINE]})]

    _, plan = site.plan_site(REQUEST, OBSERVER)

    check_run, jobs_run = playbooks.requests
    assert (check_run.playbook, check_run.check, check_run.limit) == (APPLY, True, "compute1")
    assert (jobs_run.playbook, jobs_run.check, jobs_run.limit) == (PLAN, False, None)
    assert [str(effect) for effect in plan.effects] == ["restart slurmd"]
    assert [job.id for job in plan.jobs["compute2"]] == ["12"]


def test_plan_has_no_jobs_if_slurm_does_not_answer(site, playbooks):
    restarted = HostFinished(
        host="a", task=Task(name="Restart x", is_handler=True), outcome=TaskOutcome.CHANGED
    )
    playbooks.results = [run(restarted), run(outcome=RunOutcome.FAILED)]

    assert site.plan_site(REQUEST, OBSERVER)[1].jobs is None


def test_plan_without_effects_does_not_read_jobs(site, playbooks):
    playbooks.results = [run(ended("a", TaskOutcome.CHANGED))]

    assert site.plan_site(REQUEST, OBSERVER)[1].jobs == {}


def test_an_interrupted_check_run_returns_no_plan(site, playbooks):
    playbooks.results = [run(outcome=RunOutcome.INTERRUPTED)]

    assert site.plan_site(REQUEST, OBSERVER)[1] is None


def test_a_plan_that_is_interrupted_while_it_reads_jobs_returns_no_plan(site, playbooks):
    restarted = HostFinished(
        host="a", task=Task(name="Restart x", is_handler=True), outcome=TaskOutcome.CHANGED
    )
    playbooks.results = [run(restarted), run(outcome=RunOutcome.INTERRUPTED)]

    record, plan = site.plan_site(REQUEST, OBSERVER)

    assert (record.outcome, plan) == (RunOutcome.INTERRUPTED, None)


def test_a_failed_check_run_is_an_error(site, playbooks):
    failed = (ended("a", TaskOutcome.FAILED, "x"), RunEnded(failed=frozenset({"a"})))
    playbooks.results = [run(*failed, outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError):
        site.plan_site(REQUEST, OBSERVER)


def test_jobs_are_parsed_from_squeue_lines():
    (job,) = to_jobs({"squeue": [LINE]})

    assert (job.id, job.user, job.ends_at, job.nodes) == (
        "12", "0xab", "2026-11-21T14:00:00", ("compute1", "compute2"),
    )  # fmt: skip


def test_a_malformed_squeue_line_is_an_error():
    with pytest.raises(UnexpectedOutput):
        to_jobs({"squeue": ["12|x"]})


class FakeMetrics:
    """Stores what was published."""

    def __init__(self):
        self.published = []

    def publish(self, tasks, *, checked_at):
        self.published.append((tasks, checked_at))


def test_drift_counts_the_tasks_of_every_host_and_publishes_them(site, playbooks):
    changed, same = ended("compute1", TaskOutcome.CHANGED), ended("db", TaskOutcome.OK)
    handler = HostFinished(
        host="compute1",
        task=Task(name="Restart slurmd", is_handler=True),
        outcome=TaskOutcome.CHANGED,
        message="",
    )
    playbooks.results = [run(changed, handler, same)]
    metrics = FakeMetrics()

    record, changes = site.drift(REQUEST, OBSERVER, metrics)

    assert playbooks.requests == [replace(REQUEST, playbook=APPLY, check=True)]
    assert changes == {"compute1": 1, "db": 0}
    assert metrics.published == [(changes, record.circumstances.ended_at)]
    assert record.command == "drift"


def test_a_failed_drift_check_is_published_as_unknown(site, playbooks):
    unreachable = ended("compute1", TaskOutcome.UNREACHABLE, "no route")
    playbooks.results = [
        run(unreachable, RunEnded(failed=frozenset({"compute1"})), outcome=RunOutcome.FAILED)
    ]
    metrics = FakeMetrics()

    with pytest.raises(SiteUnreachable):
        site.drift(REQUEST, OBSERVER, metrics)

    assert [tasks for tasks, _ in metrics.published] == [None]


def test_an_interrupted_drift_check_publishes_nothing(site, playbooks):
    playbooks.results = [run(outcome=RunOutcome.INTERRUPTED)]
    metrics = FakeMetrics()

    assert site.drift(REQUEST, OBSERVER, metrics)[1] is None
    assert metrics.published == []
