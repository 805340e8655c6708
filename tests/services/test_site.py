# SPDX-License-Identifier: Apache-2.0
"""A site's service, on playbooks that only tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridstead.domain.playbook import (
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
from gridstead.ports.playbooks import Stop
from gridstead.services.site import APPLY, PLAN, VERIFY, RunAuthor, SiteService, Watch, to_jobs

WATCH = Watch(tell=lambda _event: None, stop=Stop())
ORDER = PlaybookRequest(playbook="", inventory="/inv", limit="compute1", tags="slurm_configure")
LINE = "12|0xab|2026-11-21T14:00:00|compute[1-2]"


def ended(host, outcome, message="", *, name="Ensure x"):
    return HostFinished(
        host=host, task=Task(name=name, role="slurm"), outcome=outcome, message=message
    )


def run(*events, outcome=RunOutcome.SUCCEEDED, waiting=None, report=None):
    return PlaybookRun(outcome=outcome, events=events, waiting=waiting or {}, report=report)


class FakePlaybooks:
    """Answers each order with the next run."""

    def __init__(self):
        self.answers, self.orders = [], []

    def run(self, order, *, tell, stop):
        self.orders.append(order)
        return self.answers.pop(0)


class FakeRecords:
    """Keeps records in memory."""

    def __init__(self):
        self.kept = []

    def add(self, record):
        self.kept.append(record)

    def all(self):
        return tuple(reversed(self.kept))


class Clock:
    """Ten seconds pass between two looks."""

    def __init__(self):
        self.at = 1_795_265_800

    def now(self):
        self.at += 10
        return self.at


@pytest.fixture
def playbooks():
    return FakePlaybooks()


@pytest.fixture
def site(playbooks):
    return SiteService(playbooks, FakeRecords(), Clock(), RunAuthor(by="me@here", commit="abc"))


def test_a_run_that_began_nothing_fails_with_ansibles_words_and_is_recorded(site, playbooks):
    playbooks.answers = [
        run(PrintedText(text="[ERROR]: no hosts\nto target"), outcome=RunOutcome.FAILED)
    ]

    with pytest.raises(ConfigError, match="could not begin") as error:
        site.apply(ORDER, WATCH)

    assert error.value.detail == "[ERROR]: no hosts\nto target"
    assert [one.outcome for one in site.runs()] == [RunOutcome.FAILED]


def test_hosts_that_do_not_answer_may_answer_later(site, playbooks):
    away = ended("compute1", TaskOutcome.UNREACHABLE, "no route")
    playbooks.answers = [
        run(away, RunEnded(failed=frozenset({"compute1"})), outcome=RunOutcome.FAILED)
    ]

    with pytest.raises(SiteUnreachable, match="could not reach compute1"):
        site.apply(ORDER, WATCH)


def test_a_failure_names_task_words_and_what_still_runs_with_old_settings(site, playbooks):
    events = (
        ended("compute1", TaskOutcome.FAILED, "no room"),
        ended("db", TaskOutcome.UNREACHABLE, "no route"),
    )
    failed = RunEnded(failed=frozenset({"compute1", "db"}))
    playbooks.answers = [
        run(*events, failed, outcome=RunOutcome.FAILED, waiting={"db": ("slurm_restart",)})
    ]

    with pytest.raises(ConfigError, match="compute1, db") as error:
        site.apply(ORDER, WATCH)

    assert error.value.detail == "compute1: slurm: Ensure x: no room\ndb: slurm: Ensure x: no route"
    assert "db: slurm_restart" in error.value.hint


def test_apply_runs_the_site_as_ordered_and_records_it(site, playbooks):
    playbooks.answers = [run(ended("compute1", TaskOutcome.CHANGED))]

    record = site.apply(ORDER, WATCH)

    assert playbooks.orders == [
        PlaybookRequest(playbook=APPLY, inventory="/inv", limit="compute1", tags="slurm_configure")
    ]
    assert (record.id, record.command, record.circumstances.by) == (
        "20261121T125650Z-apply",
        "apply",
        "me@here",
    )
    assert record.circumstances.ended_at - record.circumstances.started_at == 10
    assert record.changed == {"compute1": ("slurm: Ensure x",)}
    assert site.runs() == (record,)


def test_an_interrupted_run_is_no_error(site, playbooks):
    playbooks.answers = [run(outcome=RunOutcome.INTERRUPTED)]

    assert site.apply(ORDER, WATCH).outcome is RunOutcome.INTERRUPTED


def test_verify_returns_what_was_found_although_the_playbook_failed(site, playbooks):
    told = {"host": "a", "role": "munge", "what": "x", "seen": "y", "who": "grid", "hint": ""}
    report = {"looked_at": 2, "hosts": {}, "findings": [told]}
    playbooks.answers = [run(outcome=RunOutcome.FAILED, report=report)]

    _, found = site.verify(ORDER, WATCH)

    assert [one.who for one in found.findings] == ["grid"]
    assert playbooks.orders[0].playbook == VERIFY


def test_verify_without_a_report_says_why(site, playbooks):
    playbooks.answers = [run(PrintedText(text="broken"), outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError):
        site.verify(ORDER, WATCH)


def test_verify_that_was_interrupted_found_nothing(site, playbooks):
    playbooks.answers = [run(outcome=RunOutcome.INTERRUPTED)]

    assert site.verify(ORDER, WATCH)[1] is None


def test_plan_checks_the_site_and_then_asks_for_the_jobs_of_all_nodes(site, playbooks):
    started = HostFinished(
        host="compute2", task=Task(name="Ensure it runs"), outcome=TaskOutcome.CHANGED, targets=("slurmd",),
        unit_state="restarted",
    )  # fmt: skip
    playbooks.answers = [run(started), run(report={"squeue": [LINE]})]

    _, found = site.plan_site(ORDER, WATCH)

    assert [(one.playbook, one.check, one.limit) for one in playbooks.orders] == [
        (APPLY, True, "compute1"),
        (PLAN, False, None),
    ]
    assert [str(one) for one in found.effects] == ["restart slurmd"]
    assert [job.id for job in found.jobs["compute2"]] == ["12"]


def test_plan_does_not_know_the_jobs_where_slurm_does_not_answer(site, playbooks):
    restarted = HostFinished(
        host="a", task=Task(name="Restart x", is_handler=True), outcome=TaskOutcome.CHANGED
    )
    playbooks.answers = [run(restarted), run(outcome=RunOutcome.FAILED)]

    assert site.plan_site(ORDER, WATCH)[1].jobs is None


def test_plan_without_effects_asks_for_no_jobs(site, playbooks):
    playbooks.answers = [run(ended("a", TaskOutcome.CHANGED))]

    assert site.plan_site(ORDER, WATCH)[1].jobs == {}


def test_plan_that_was_interrupted_asks_for_nothing(site, playbooks):
    playbooks.answers = [run(outcome=RunOutcome.INTERRUPTED)]

    assert site.plan_site(ORDER, WATCH)[1] is None


def test_plan_that_was_interrupted_while_it_asked_for_jobs_tells_none(site, playbooks):
    restarted = HostFinished(
        host="a", task=Task(name="Restart x", is_handler=True), outcome=TaskOutcome.CHANGED
    )
    playbooks.answers = [run(restarted), run(outcome=RunOutcome.INTERRUPTED)]

    record, found = site.plan_site(ORDER, WATCH)

    assert (record.outcome, found) == (RunOutcome.INTERRUPTED, None)


def test_plan_that_failed_says_so(site, playbooks):
    failed = (ended("a", TaskOutcome.FAILED, "x"), RunEnded(failed=frozenset({"a"})))
    playbooks.answers = [run(*failed, outcome=RunOutcome.FAILED)]

    with pytest.raises(ConfigError):
        site.plan_site(ORDER, WATCH)


def test_jobs_are_read_as_squeue_prints_them():
    (job,) = to_jobs({"squeue": [LINE]})

    assert (job.id, job.user, job.ends_at, job.nodes) == (
        "12", "0xab", "2026-11-21T14:00:00", ("compute1", "compute2"),
    )  # fmt: skip


def test_another_line_of_squeue_is_never_guessed():
    with pytest.raises(UnexpectedOutput):
        to_jobs({"squeue": ["12|x"]})


class FakeMetrics:
    """Remembers what was published."""

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
    playbooks.answers = [run(changed, handler, same)]
    metrics = FakeMetrics()

    record, found = site.drift(ORDER, WATCH, metrics)

    assert playbooks.orders == [replace(ORDER, playbook=APPLY, check=True)]
    assert found == {"compute1": 1, "db": 0}
    assert metrics.published == [(found, record.circumstances.ended_at)]
    assert record.command == "drift"


def test_drift_that_cannot_be_looked_at_is_published_as_that(site, playbooks):
    away = ended("compute1", TaskOutcome.UNREACHABLE, "no route")
    playbooks.answers = [
        run(away, RunEnded(failed=frozenset({"compute1"})), outcome=RunOutcome.FAILED)
    ]
    metrics = FakeMetrics()

    with pytest.raises(SiteUnreachable):
        site.drift(ORDER, WATCH, metrics)

    assert [tasks for tasks, _ in metrics.published] == [None]


def test_an_interrupted_look_for_drift_leaves_what_was_published(site, playbooks):
    playbooks.answers = [run(outcome=RunOutcome.INTERRUPTED)]
    metrics = FakeMetrics()

    assert site.drift(ORDER, WATCH, metrics)[1] is None
    assert metrics.published == []
