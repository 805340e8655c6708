# SPDX-License-Identifier: Apache-2.0
"""`gridstead provider apply|verify|plan|drift|runs`, on a site that only tells."""

import json
import os
import signal

import pytest

from gridstead.cli import site as cli
from gridstead.cli.site_progress import SiteProgress, interruptible
from gridstead.domain.diagnostic import Diagnostic
from gridstead.domain.playbook import (
    Effect,
    HostFinished,
    PlayStarted,
    PrintedText,
    RunningJob,
    RunOutcome,
    SitePlan,
    Task,
    TaskOutcome,
    TaskStarted,
    Verb,
)
from gridstead.domain.run_record import Circumstances, FailedTask, RunRecord
from gridstead.domain.verification import Verification
from gridstead.errors import ConfigError
from gridstead.ports.playbooks import Stop

TASK = Task(name="Ensure the settings are there", role="slurm")
CHANGE = HostFinished(
    host="controller",
    task=TASK,
    outcome=TaskOutcome.CHANGED,
    targets=("/etc/slurm/slurm.conf",),
    diff="-a\n+b\n",
)
DIAGNOSTIC = Diagnostic(
    where=("compute1", "slurm"),
    what="slurmd runs",
    seen="it is failed",
    who="operator",
    hint="Start it.",
)


def record(outcome=RunOutcome.SUCCEEDED, **more):
    told = {"changed": {"a": ("x", "y")}, "failed": (), "waiting": {}} | more
    at = Circumstances(by="me@here", commit="abc", started_at=0, ended_at=1)
    return RunRecord(
        id="1-apply",
        command="apply",
        circumstances=at,
        inventory=None,
        limit=None,
        tags=None,
        outcome=outcome,
        **told,
    )


class FakeSite:
    """Returns what it was given, and tells one event."""

    def __init__(self, result):
        self.result, self.orders = result, []

    def _answer(self, order, observer):
        self.orders.append(order)
        observer.notify(PlayStarted(name="Run the controller"))
        observer.notify(CHANGE)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    apply = verify = plan_site = _answer

    def drift(self, order, observer, metrics):
        self.metrics = metrics
        return self._answer(order, observer)

    def runs(self):
        return self.result


@pytest.fixture
def on(monkeypatch):
    """Lets the commands work on a site with this result, and returns it."""

    def site(result):
        fake = FakeSite(result)
        monkeypatch.setattr(cli, "_site", lambda _checkout: fake)
        return fake

    return site


def test_without_ansible_it_says_what_to_install(gridstead, monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda _name: None)

    done = gridstead("provider", "apply")

    assert done.code == ConfigError.exit_code
    assert "make setup" in done.err


def test_outside_a_checkout_it_says_where_to_go(gridstead, tmp_path):
    done = gridstead("provider", "verify", "--checkout", tmp_path)

    assert done.code == ConfigError.exit_code
    assert "--checkout" in done.err


def test_an_inventory_that_is_not_there_is_said_before_anything_runs(gridstead, on, tmp_path):
    site = on((record(), None))

    done = gridstead("provider", "apply", "--inventory", tmp_path / "none")

    assert (done.code, site.orders) == (65, [])


def test_apply_hands_on_what_was_asked_and_shows_how_it_goes(gridstead, on, tmp_path):
    site = on(record())

    done = gridstead("provider", "apply", "-i", tmp_path, "-l", "compute1", "-t", "slurm_configure")

    (order,) = site.orders
    assert (order.inventory, order.limit, order.tags) == (
        str(tmp_path),
        "compute1",
        "slurm_configure",
    )
    assert done.out == "2 changes on 1 hosts\n"
    assert "apply: Run the controller" in done.err
    assert "changed     controller  slurm: Ensure the settings are there" in done.err


def test_apply_that_was_interrupted_says_what_is_not_in_force(gridstead, on):
    on(record(RunOutcome.INTERRUPTED, waiting={"a": ("slurm_restart",)}))

    done = gridstead("provider", "apply")

    assert done.code == 130
    assert "a: settings changed, not yet in force: slurm_restart" in done.out


def test_apply_that_failed_says_who_must_act(gridstead, on):
    on(ConfigError("could not bring a to it", detail="a: x: no room", hint="Mend it."))

    done = gridstead("provider", "apply", "--json")

    assert json.loads(done.err[done.err.index("{") :])["error"]["hint"] == "Mend it."
    assert done.code == 78


def test_verify_tells_all_that_is_wrong_and_ends_so(gridstead, on):
    on((record(), Verification(checked=9, hosts={"compute1": {}}, diagnostics=(DIAGNOSTIC,))))

    done = gridstead("provider", "verify")

    assert done.code == 78
    wanted = ("compute1, slurm", "slurmd runs", "it is failed", "operator: Start it.")
    assert [word for word in wanted if word not in done.out] == []
    assert done.out.startswith("1 of 9 checks failed\n")


def test_verify_of_a_site_that_works_is_one_line(gridstead, on):
    on((record(), Verification(checked=9, hosts={"compute1": {}}, diagnostics=())))

    done = gridstead("provider", "verify")

    assert (done.code, done.out) == (0, "9 checks passed on 1 hosts\n")


def test_verify_as_json_is_the_whole_report(gridstead, on):
    on((record(), Verification(checked=1, hosts={"a": {"munge": []}}, diagnostics=(DIAGNOSTIC,))))

    told = json.loads(gridstead("provider", "verify", "--json").out)

    assert told["hosts"] == {"a": {"munge": []}}
    assert told["findings"][0]["who"] == "operator"


def planned(**more):
    job = RunningJob(id="12", user="0xab", ends_at="2026-11-21T14:00:00", nodes=("compute1",))
    told = {
        "changes": (CHANGE,),
        "effects": (Effect(host="compute1", verb=Verb.DRAIN, to="the node"),),
        "drains": ("compute1",),
        "jobs": {"compute1": (job,)},
    }
    return SitePlan(**told | more)


def test_a_plan_says_what_would_change_what_it_costs_and_whom_it_meets(gridstead, on):
    on((record(), planned()))

    out = gridstead("provider", "plan").out

    assert "slurm: Ensure the settings are there  /etc/slurm/slurm.conf" in out
    assert (
        "compute1: drain the node\ndrain first: compute1 (playbooks/drain.yml waits for their jobs)\n"
        in out
    )
    assert "1 jobs run on compute1: 12 of 0xab until 2026-11-21T14:00:00" in out
    assert "+b" not in out


def test_a_plan_shows_differences_when_asked(gridstead, on):
    on((record(), planned()))

    assert "-a\n+b\n" in gridstead("provider", "plan", "--diff").out


def test_a_plan_says_that_it_does_not_know_the_jobs(gridstead, on):
    on((record(), planned(jobs=None)))

    assert "not known" in gridstead("provider", "plan").out


def test_a_plan_of_a_site_as_it_must_be_is_one_line(gridstead, on):
    on((record(), planned(changes=(), effects=(), drains=(), jobs={})))

    assert gridstead("provider", "plan").out == "nothing would change\n"


def test_a_plan_as_json_has_all_of_it(gridstead, on):
    on((record(), planned()))

    told = json.loads(gridstead("provider", "plan", "--json").out)

    assert told["effects"] == [{"host": "compute1", "verb": "drain", "to": "the node"}]
    assert told["jobs"]["compute1"][0]["id"] == "12"
    assert told["changes"][0]["diff"] == "-a\n+b\n"


def test_runs_are_listed_and_one_is_shown_whole(gridstead, on):
    on((record(RunOutcome.FAILED, failed=(FailedTask(host="a", task="x", message="no room"),)),))

    assert "1-apply" in gridstead("provider", "runs").out
    assert (
        json.loads(gridstead("provider", "runs", "1-apply").out)["failed"][0]["message"]
        == "no room"
    )
    assert len(json.loads(gridstead("provider", "runs", "--json").out)) == 1
    assert gridstead("provider", "runs", "2-apply").code == 65


def test_the_line_says_play_task_hosts_and_time():
    progress = SiteProgress("apply")
    for event in (
        PlayStarted(name="Run the nodes"),
        TaskStarted(task=TASK),
        CHANGE,
        PrintedText(text="x"),
    ):
        progress.tell(event)

    assert (
        progress.__rich__().plain
        == "Run the nodes · slurm: Ensure the settings are there · 1 hosts done · 0:00"
    )


def test_an_interrupt_is_a_wish_and_afterwards_an_interrupt_again(capsys):
    stop = Stop()
    before = signal.getsignal(signal.SIGINT)

    with interruptible(stop):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

    assert (stop.requests, signal.getsignal(signal.SIGINT)) == (2, before)
    assert (
        capsys.readouterr().err == "ends after this task; once more interrupts it\ninterrupting\n"
    )


def test_drift_ends_with_78_and_names_hosts_and_tasks(gridstead, on):
    on((record(), {"a": 2, "b": 0}))

    done = gridstead("provider", "drift")

    assert done.code == ConfigError.exit_code
    assert [line.split() for line in done.out.splitlines()[1:]] == [["a", "x"], ["a", "y"]]


def test_without_drift_it_says_how_many_hosts_were_looked_at(gridstead, on, tmp_path):
    site = on((record(changed={}), {"a": 0, "b": 0}))

    done = gridstead("provider", "drift", "--metrics", tmp_path / "drift.prom")

    assert (done.code, done.out) == (0, "2 hosts are as the inventory says\n")
    site.metrics.publish({"a": 0}, checked_at=1)
    assert 'gridstead_drift_tasks{host="a"} 0.0' in (tmp_path / "drift.prom").read_text()


def test_metrics_that_cannot_be_written_are_said_before_anything_runs(gridstead, on, tmp_path):
    site = on((record(changed={}), {"a": 0}))

    done = gridstead("provider", "drift", "--metrics", tmp_path / "none/drift.prom")

    assert (done.code, site.orders) == (65, [])


def test_drift_for_programs_is_json(gridstead, on):
    on((record(), {"a": 2, "b": 0}))

    assert json.loads(gridstead("provider", "drift", "--json").out) == {
        "tasks": {"a": 2, "b": 0},
        "changed": {"a": ["x", "y"]},
    }
