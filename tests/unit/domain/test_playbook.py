# SPDX-License-Identifier: Apache-2.0
"""What follows from the events of a playbook's run."""

import pytest

from gridstead.domain.diagnostic import Diagnostic
from gridstead.domain.hostlist import expand
from gridstead.domain.playbook import (
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
    effects,
    failures,
    plan_site,
    tally,
)
from gridstead.domain.run_record import Circumstances, to_record
from gridstead.domain.verification import to_verification
from gridstead.errors import UnexpectedOutput


def ended(host, name, outcome=TaskOutcome.CHANGED, *, handler=False, **more):
    return HostFinished(
        host=host, task=Task(name=name, role="slurm", is_handler=handler), outcome=outcome, **more
    )


RUN = (
    PlayStarted(name="Run the controller"),
    TaskStarted(task=Task(name="Ensure slurmctld has its configuration", role="slurm")),
    ended(
        "controller", "Ensure slurmctld has its configuration", targets=("/etc/slurm/slurm.conf",)
    ),
    ended("controller", "Ensure slurmctld runs", TaskOutcome.OK),
    ended("controller", "Look whether slurmctld runs", handler=True),
    ended("controller", "Reconfigure the cluster", handler=True),
    ended("controller", "Reconfigure the cluster", handler=True),
    ended("controller", "Restart slurmrestd", TaskOutcome.SKIPPED, handler=True),
    ended("compute1", "Ensure slurmd runs", targets=("slurmd",), unit_state="started"),
    ended("compute1", "Drain the node", handler=True),
    RunEnded(failed=frozenset()),
)
JOB = RunningJob(
    id="12", user="0xab", ends_at="2026-11-21T14:00:00", nodes=("compute1", "compute2")
)


def test_what_handlers_do_is_no_change_but_what_a_change_costs():
    assert [(one.host, one.task.name) for one in changes(RUN)] == [
        ("controller", "Ensure slurmctld has its configuration"),
        ("compute1", "Ensure slurmd runs"),
    ]


def test_effects_are_what_handlers_and_units_say_each_once_and_nothing_that_only_looks():
    assert [(one.host, str(one)) for one in effects(RUN)] == [
        ("controller", "reconfigure the cluster"),
        ("compute1", "start slurmd"),
        ("compute1", "drain the node"),
    ]


def test_a_handler_with_an_unknown_verb_has_no_effect_that_could_be_told():
    assert effects([ended("a", "Frobnicate x", handler=True)]) == ()


def test_a_task_on_units_that_asks_for_no_state_costs_nothing():
    assert effects([ended("a", "Ensure x starts at boot", targets=("x",), unit_state="")]) == ()


def test_a_plan_names_the_nodes_that_drain_and_the_jobs_where_something_happens():
    found = plan_site(RUN, [JOB])

    assert found.drains == ("compute1",)
    assert found.jobs == {"compute1": (JOB,), "controller": ()}


@pytest.mark.parametrize(
    ("name", "jobs", "drains"),
    [
        ("Remount the file system", [JOB], ("compute1",)),
        ("Stop x", [JOB], ("compute1",)),
        ("Remount the file system", [], ()),
        ("Remount the file system", None, ()),
        ("Restart slurmd", [JOB], ()),
        ("Reconfigure Slurm", [JOB], ()),
    ],
)
def test_a_node_is_to_drain_before_its_jobs_lose_what_they_use(name, jobs, drains):
    assert plan_site([ended("compute1", name, handler=True)], jobs).drains == drains


def test_a_plan_knows_that_it_does_not_know_the_jobs():
    assert plan_site(RUN, None).jobs is None


def test_a_plan_of_a_site_as_it_must_be_is_empty():
    found = plan_site(
        [ended("a", "Ensure x", TaskOutcome.OK), ended("a", "Ensure y", TaskOutcome.SKIPPED)], [JOB]
    )

    assert (found.changes, found.effects, found.drains, found.jobs) == ((), (), (), {})


def test_a_tally_counts_the_changes_of_each_host_that_took_part():
    unchanged = ended("archive", "Ensure x", TaskOutcome.OK)

    assert list(tally([*RUN, unchanged]).items()) == [
        ("archive", 0),
        ("compute1", 1),
        ("controller", 1),
    ]


def test_what_was_rescued_has_not_failed():
    told = [ended("b", "Look", TaskOutcome.FAILED, message="x"), RunEnded(failed=frozenset({"a"}))]

    assert failures(told) == ()


def test_a_host_failed_on_its_last_failure():
    told = [
        ended("b", "Reach", TaskOutcome.UNREACHABLE, message="away"),
        ended("a", "Look", TaskOutcome.FAILED, message="rescued"),
        ended("a", "Say", TaskOutcome.FAILED, message="this"),
        RunEnded(failed=frozenset({"a", "b"})),
    ]

    assert [(one.host, one.message) for one in failures(told)] == [("a", "this"), ("b", "away")]


def test_a_run_without_an_end_has_no_failures():
    assert failures([PrintedText(text="interrupted"), ended("a", "Look", TaskOutcome.FAILED)]) == ()


def test_a_record_holds_names_and_messages_and_no_content():
    secret = ended("b", "Ensure the key", targets=("/key",), diff="+hidden")
    failed = ended("a", "Ensure x", TaskOutcome.FAILED, message="no room")
    run = PlaybookRun(
        outcome=RunOutcome.FAILED,
        events=(secret, failed, RunEnded(failed=frozenset({"a"}))),
        waiting={"b": ("x_restart",)},
    )
    at = Circumstances(by="me@here", commit="abc+", started_at=1, ended_at=2)

    record = to_record("1-apply", "apply", PlaybookRequest(playbook="p.yml", limit="b"), run, at)

    assert record.changed == {"b": ("slurm: Ensure the key",)}
    assert [(one.host, one.task, one.message) for one in record.failed] == [
        ("a", "slurm: Ensure x", "no room")
    ]
    assert (record.limit, record.waiting, record.circumstances) == ("b", {"b": ("x_restart",)}, at)
    assert "hidden" not in repr(record)


def test_a_task_of_no_role_stands_alone():
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
def test_a_list_of_hosts_is_expanded_as_slurm_does(text, names):
    assert expand(text) == names


@pytest.mark.parametrize("text", ["a[", "a[]", "a[1-]", "a]b", "a[1,,2]", "a[x]"])
def test_what_is_no_list_of_hosts_is_never_guessed(text):
    with pytest.raises(UnexpectedOutput):
        expand(text)


def test_verification_report_is_read():
    finding = {
        "host": "a",
        "role": "munge",
        "what": "x runs",
        "seen": "it is dead",
        "who": "operator",
        "hint": "",
    }

    verification = to_verification(
        {"looked_at": 3, "findings": [finding], "hosts": {"a": {"munge": []}}}
    )

    (diagnostic,) = verification.diagnostics
    assert verification.checked == 3
    assert verification.hosts == {"a": {"munge": []}}
    assert diagnostic == Diagnostic(
        where=("a", "munge"), what="x runs", seen="it is dead", who="operator", hint=""
    )


@pytest.mark.parametrize("report", [{}, {"looked_at": 1, "hosts": {}, "findings": [{"host": "a"}]}])
def test_verification_report_of_another_form_is_refused(report):
    with pytest.raises(UnexpectedOutput):
        to_verification(report)
