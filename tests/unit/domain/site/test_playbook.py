# SPDX-License-Identifier: Apache-2.0
"""Tests of the changes, effects, failures and plan that are computed from the events of a run."""

import pytest

from gridstead.domain.diagnostic import Diagnostic
from gridstead.domain.site.playbook import (
    HostFinished,
    PlaybookRequest,
    PlaybookRun,
    PlayStarted,
    PrintedText,
    RunEnded,
    RunningJob,
    RunOutcome,
    Task,
    TaskOutcome,
    TaskStarted,
    changes,
    count_changes,
    effects,
    failures,
    plan_site,
)
from gridstead.domain.site.run_record import Circumstances, FailedTask, to_run_record
from gridstead.domain.site.verification import to_report, to_verification
from gridstead.domain.slurm.hostlist import expand_hostlist
from gridstead.errors import UnexpectedOutput


def host_finished(host, name, outcome=TaskOutcome.CHANGED, *, is_handler=False, **fields):
    """Return the event that reports the end of a task on a host."""
    task = Task(name=name, role="slurm", is_handler=is_handler)
    return HostFinished(host=host, task=task, outcome=outcome, **fields)


EVENTS = (
    PlayStarted(name="Run the controller"),
    TaskStarted(task=Task(name="Ensure slurmctld has its configuration", role="slurm")),
    host_finished(
        "controller", "Ensure slurmctld has its configuration", targets=("/etc/slurm/slurm.conf",)
    ),
    host_finished("controller", "Ensure slurmctld runs", TaskOutcome.OK),
    host_finished("controller", "Check whether slurmctld runs", is_handler=True),
    host_finished("controller", "Reconfigure the cluster", is_handler=True),
    host_finished("controller", "Reconfigure the cluster", is_handler=True),
    host_finished("controller", "Restart slurmrestd", TaskOutcome.SKIPPED, is_handler=True),
    host_finished("compute1", "Ensure slurmd runs", targets=("slurmd",), unit_state="started"),
    host_finished("compute1", "Drain the node", is_handler=True),
    RunEnded(failed=frozenset()),
)
JOB = RunningJob(
    id="12", user="0xab", ends_at="2026-11-21T14:00:00", nodes=("compute1", "compute2")
)


def test_changes_exclude_handlers():
    assert [(change.host, change.task.name) for change in changes(EVENTS)] == [
        ("controller", "Ensure slurmctld has its configuration"),
        ("compute1", "Ensure slurmd runs"),
    ]


def test_effects_of_handlers_and_units_are_listed_once():
    assert [(effect.host, str(effect)) for effect in effects(EVENTS)] == [
        ("controller", "reconfigure the cluster"),
        ("compute1", "start slurmd"),
        ("compute1", "drain the node"),
    ]


def test_handler_with_an_unknown_verb_has_no_effect():
    assert effects([host_finished("a", "Frobnicate x", is_handler=True)]) == ()


def test_task_without_a_unit_state_has_no_effect():
    event = host_finished("a", "Ensure x starts at boot", targets=("x",), unit_state="")

    assert effects([event]) == ()


def test_plan_contains_nodes_to_drain_and_jobs_on_affected_hosts():
    plan = plan_site(EVENTS, [JOB])

    assert plan.nodes_to_drain == ("compute1",)
    assert plan.jobs == {"compute1": (JOB,), "controller": ()}


@pytest.mark.parametrize(
    ("name", "jobs", "drains"),
    [
        ("Remount the file system", [JOB], ("compute1",)),
        ("Stop x", [JOB], ("compute1",)),
        ("Remount the file system", [], ()),
        ("Remount the file system", None, ()),  # Slurm did not answer.
        ("Restart slurmd", [JOB], ()),
        ("Reconfigure Slurm", [JOB], ()),
    ],
)
def test_node_is_drained_if_an_effect_would_end_its_jobs(name, jobs, drains):
    handler_run = host_finished("compute1", name, is_handler=True)

    assert plan_site([handler_run], jobs).nodes_to_drain == drains


def test_jobs_of_a_plan_are_unknown_if_slurm_did_not_answer():
    assert plan_site(EVENTS, None).jobs is None


def test_plan_of_an_unchanged_site_is_empty():
    events = [
        host_finished("a", "Ensure x", TaskOutcome.OK),
        host_finished("a", "Ensure y", TaskOutcome.SKIPPED),
    ]

    plan = plan_site(events, [JOB])

    assert plan.changes == ()
    assert plan.effects == ()
    assert plan.nodes_to_drain == ()
    assert plan.jobs == {}


def test_count_changes_counts_the_changes_of_each_host():
    unchanged_event = host_finished("archive", "Ensure x", TaskOutcome.OK)

    assert list(count_changes([*EVENTS, unchanged_event]).items()) == [
        ("archive", 0),
        ("compute1", 1),
        ("controller", 1),
    ]


def test_rescued_task_is_not_a_failure():
    # A task failed on host b, but only host a is failed at the end of the run.
    events = [
        host_finished("b", "Check x", TaskOutcome.FAILED, message="x"),
        RunEnded(failed=frozenset({"a"})),
    ]

    assert failures(events) == ()


def test_last_failure_of_each_failed_host_is_returned():
    events = [
        host_finished("b", "Gather facts", TaskOutcome.UNREACHABLE, message="unreachable"),
        host_finished("a", "Check x", TaskOutcome.FAILED, message="rescued"),
        host_finished("a", "Check y", TaskOutcome.FAILED, message="last"),
        RunEnded(failed=frozenset({"a", "b"})),
    ]

    assert [(failure.host, failure.message) for failure in failures(events)] == [
        ("a", "last"),
        ("b", "unreachable"),
    ]


def test_run_without_an_end_event_has_no_failures():
    events = [PrintedText(text="interrupted"), host_finished("a", "Check x", TaskOutcome.FAILED)]

    assert failures(events) == ()


def test_record_has_names_and_messages_but_no_diffs():
    changed_event = host_finished("b", "Ensure the key", targets=("/key",), diff="+hidden")
    failed_event = host_finished("a", "Ensure x", TaskOutcome.FAILED, message="no room")
    run = PlaybookRun(
        outcome=RunOutcome.FAILED,
        events=(changed_event, failed_event, RunEnded(failed=frozenset({"a"}))),
        waiting={"b": ("x_restart",)},  # Handlers that were notified but did not run.
    )
    circumstances = Circumstances(by="me@here", commit="abc+", started_at=1, ended_at=2)
    request = PlaybookRequest(playbook="p.yml", limit="b")

    record = to_run_record("1-apply", "apply", request, run, circumstances)

    assert record.changed == {"b": ("slurm: Ensure the key",)}
    assert record.failed == (FailedTask(host="a", task="slurm: Ensure x", message="no room"),)
    assert record.limit == "b"
    assert record.waiting == {"b": ("x_restart",)}
    assert record.circumstances == circumstances
    assert "hidden" not in repr(record)


def test_text_of_a_task_without_a_role_is_its_name():
    assert str(Task(name="Ensure x")) == "Ensure x"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("login", ("login",)),
        ("a,b", ("a", "b")),
        ("compute[1-3]", ("compute1", "compute2", "compute3")),
        ("compute[08-10,12],gpu1", ("compute08", "compute09", "compute10", "compute12", "gpu1")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
    ],
)
def test_host_list_is_expanded_as_slurm_expands_it(text, names):
    assert expand_hostlist(text) == names


@pytest.mark.parametrize("text", ["a[", "a[]", "a[1-]", "a]b", "a[1,,2]", "a[x]"])
def test_malformed_host_list_is_refused(text):
    with pytest.raises(UnexpectedOutput):
        expand_hostlist(text)


def test_verification_report_is_read():
    finding = {
        "host": "a",
        "role": "munge",
        "what": "x runs",
        "seen": "it is dead",
        "who": "operator",
        "hint": "",
    }

    report = {"looked_at": 3, "findings": [finding], "hosts": {"a": {"munge": []}}}

    verification = to_verification(report)

    assert to_report(verification) == report
    (diagnostic,) = verification.diagnostics
    assert verification.check_count == 3
    assert verification.hosts == {"a": {"munge": []}}
    assert diagnostic == Diagnostic(
        where=("a", "munge"), what="x runs", actual="it is dead", who="operator", hint=""
    )


@pytest.mark.parametrize("report", [{}, {"looked_at": 1, "hosts": {}, "findings": [{"host": "a"}]}])
def test_malformed_verification_report_is_refused(report):
    with pytest.raises(UnexpectedOutput):
        to_verification(report)
