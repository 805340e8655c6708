# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead provider apply|verify|plan|drift|runs` with a fake site."""

import json
import os
import signal

import pytest

from gridstead.cli import site as cli
from gridstead.cli.site_progress import SiteProgress, interruptible
from gridstead.domain.diagnostic import Diagnostic
from gridstead.domain.site.playbook import (
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
from gridstead.domain.site.run_record import Circumstances, FailedTask, RunRecord
from gridstead.domain.site.verification import Verification
from gridstead.errors import ConfigError
from gridstead.ports.site import Stop

# Exit codes in these tests: 65 for invalid input, 78 for findings and wrong settings, 130 after an
# interruption.

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
    actual="it is failed",
    who="operator",
    hint="Start it.",
)


def record(outcome=RunOutcome.SUCCEEDED, **changes):
    """Return the record of a run of apply."""
    fields = {"changed": {"a": ("x", "y")}, "failed": (), "waiting": {}} | changes
    circumstances = Circumstances(by="me@here", commit="abc", started_at=0, ended_at=1)
    return RunRecord(
        id="1-apply",
        command="apply",
        circumstances=circumstances,
        inventory=None,
        limit=None,
        tags=None,
        outcome=outcome,
        **fields,
    )


class FakeSite:
    """A fake site. For each request it reports two events and returns or raises a given result."""

    def __init__(self, result):
        self.result = result
        self.requests = []

    def _run(self, request, observer):
        self.requests.append(request)
        observer.notify(PlayStarted(name="Run the controller"))
        observer.notify(CHANGE)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    apply = verify = plan_site = _run

    def drift(self, request, observer, metrics):
        self.metrics = metrics
        return self._run(request, observer)

    def runs(self):
        return self.result


@pytest.fixture
def use_fake_site(monkeypatch):
    """Return a function that makes the commands use a fake site with a prepared result."""

    def use(result):
        fake = FakeSite(result)
        monkeypatch.setattr(cli, "_open_site", lambda _checkout: fake)
        return fake

    return use


def test_missing_ansible_is_an_error_with_a_hint(gridstead, monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda _name: None)

    result = gridstead("provider", "apply")

    assert result.code == ConfigError.exit_code
    assert "make setup" in result.err


def test_missing_checkout_is_an_error_with_a_hint(gridstead, tmp_path):
    result = gridstead("provider", "verify", "--checkout", tmp_path)

    assert result.code == ConfigError.exit_code
    assert "--checkout" in result.err


def test_missing_inventory_is_refused_before_the_run(gridstead, use_fake_site, tmp_path):
    site = use_fake_site((record(), None))

    result = gridstead("provider", "apply", "--inventory", tmp_path / "none")

    assert result.code == 65
    assert site.requests == []


def test_apply_passes_options_to_the_site_and_shows_progress(gridstead, use_fake_site, tmp_path):
    site = use_fake_site(record())

    options = ("-i", tmp_path, "-l", "compute1", "-t", "slurm_configure")
    result = gridstead("provider", "apply", *options)

    (request,) = site.requests
    assert request.inventory == str(tmp_path)
    assert request.limit == "compute1"
    assert request.tags == "slurm_configure"
    assert result.out == "2 changes on 1 hosts\n"
    assert "apply: Run the controller" in result.err
    assert "changed     controller  slurm: Ensure the settings are there" in result.err


def test_interrupted_apply_prints_pending_restarts(gridstead, use_fake_site):
    use_fake_site(record(RunOutcome.INTERRUPTED, waiting={"a": ("slurm_restart",)}))

    result = gridstead("provider", "apply")

    assert result.code == 130
    assert "a: changed settings that need a restart: slurm_restart" in result.out


def test_failed_apply_prints_the_hint(gridstead, use_fake_site):
    use_fake_site(ConfigError("could not configure a", detail="a: x: no room", hint="Fix it."))

    result = gridstead("provider", "apply", "--json")

    error_text = result.err[result.err.index("{") :]  # The lines before it show the progress.
    assert json.loads(error_text)["error"]["hint"] == "Fix it."
    assert result.code == 78


def test_verify_with_findings_prints_them_and_fails(gridstead, use_fake_site):
    use_fake_site(
        (record(), Verification(check_count=9, hosts={"compute1": {}}, diagnostics=(DIAGNOSTIC,)))
    )

    result = gridstead("provider", "verify")

    assert result.code == 78
    for text in ("compute1, slurm", "slurmd runs", "it is failed", "operator: Start it."):
        assert text in result.out
    assert result.out.startswith("1 of 9 checks failed\n")


def test_verify_without_findings_prints_one_line(gridstead, use_fake_site):
    use_fake_site((record(), Verification(check_count=9, hosts={"compute1": {}}, diagnostics=())))

    result = gridstead("provider", "verify")

    assert result.code == 0
    assert result.out == "9 checks passed on 1 hosts\n"


def test_verify_json_has_hosts_and_findings(gridstead, use_fake_site):
    use_fake_site(
        (
            record(),
            Verification(check_count=1, hosts={"a": {"munge": []}}, diagnostics=(DIAGNOSTIC,)),
        )
    )

    document = json.loads(gridstead("provider", "verify", "--json").out)

    assert document["hosts"] == {"a": {"munge": []}}
    assert document["findings"][0]["who"] == "operator"


def prepared_plan(**changes):
    """Return a plan that drains compute1, on which one job runs."""
    job = RunningJob(id="12", user="0xab", ends_at="2026-11-21T14:00:00", nodes=("compute1",))
    fields = {
        "changes": (CHANGE,),
        "effects": (Effect(host="compute1", verb=Verb.DRAIN, to="the node"),),
        "nodes_to_drain": ("compute1",),
        "jobs": {"compute1": (job,)},
    }
    return SitePlan(**fields | changes)


def test_plan_shows_changes_effects_and_jobs(gridstead, use_fake_site):
    use_fake_site((record(), prepared_plan()))

    out = gridstead("provider", "plan").out

    assert "slurm: Ensure the settings are there  /etc/slurm/slurm.conf" in out
    assert "compute1: drain the node\ndrain first: compute1 (playbooks/drain.yml" in out
    assert "1 jobs run on compute1: 12 of 0xab until 2026-11-21T14:00:00" in out
    assert "+b" not in out


def test_plan_shows_file_changes_with_diff(gridstead, use_fake_site):
    use_fake_site((record(), prepared_plan()))

    assert "-a\n+b\n" in gridstead("provider", "plan", "--diff").out


def test_plan_reports_that_the_jobs_are_unknown(gridstead, use_fake_site):
    use_fake_site((record(), prepared_plan(jobs=None)))

    assert "jobs on these nodes are unknown" in gridstead("provider", "plan").out


def test_plan_without_changes_prints_one_line(gridstead, use_fake_site):
    use_fake_site((record(), prepared_plan(changes=(), effects=(), nodes_to_drain=(), jobs={})))

    assert gridstead("provider", "plan").out == "nothing would change\n"


def test_plan_json_has_effects_jobs_and_changes(gridstead, use_fake_site):
    use_fake_site((record(), prepared_plan()))

    document = json.loads(gridstead("provider", "plan", "--json").out)

    assert document["effects"] == [{"host": "compute1", "verb": "drain", "to": "the node"}]
    assert document["jobs"]["compute1"][0]["id"] == "12"
    assert document["changes"][0]["diff"] == "-a\n+b\n"


def test_runs_are_listed_or_one_run_is_printed(gridstead, use_fake_site):
    use_fake_site(
        (record(RunOutcome.FAILED, failed=(FailedTask(host="a", task="x", message="no room"),)),)
    )

    assert "1-apply" in gridstead("provider", "runs").out
    run = json.loads(gridstead("provider", "runs", "1-apply").out)
    assert run["failed"][0]["message"] == "no room"
    assert len(json.loads(gridstead("provider", "runs", "--json").out)) == 1
    assert gridstead("provider", "runs", "2-apply").code == 65


def test_progress_line_has_play_task_hosts_and_time():
    progress = SiteProgress("apply")
    for event in (
        PlayStarted(name="Run the nodes"),
        TaskStarted(task=TASK),
        CHANGE,
        PrintedText(text="x"),
    ):
        progress.show(event)

    assert (
        progress.__rich__().plain
        == "Run the nodes · slurm: Ensure the settings are there · 1 hosts done · 0:00"
    )


def test_interruptible_counts_signals_as_stop_requests_and_restores_the_signal_handlers(capsys):
    stop = Stop()
    handler = signal.getsignal(signal.SIGINT)

    with interruptible(stop):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

    assert stop.requests == 2
    assert signal.getsignal(signal.SIGINT) == handler
    first, second = capsys.readouterr().err.splitlines()
    assert "stopping after this task" in first
    assert "interrupting the task" in second


def test_drift_with_changed_tasks_prints_them_by_host_and_fails(gridstead, use_fake_site):
    use_fake_site((record(), {"a": 2, "b": 0}))

    result = gridstead("provider", "drift")

    assert result.code == ConfigError.exit_code
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[1:] == [["a", "x"], ["a", "y"]]


def test_no_drift_prints_the_number_of_hosts(gridstead, use_fake_site, tmp_path):
    site = use_fake_site((record(changed={}), {"a": 0, "b": 0}))

    result = gridstead("provider", "drift", "--metrics", tmp_path / "drift.prom")

    assert result.code == 0
    assert result.out == "no drift on 2 hosts\n"
    site.metrics.publish({"a": 0}, checked_at=1)
    assert 'gridstead_drift_tasks{host="a"} 0.0' in (tmp_path / "drift.prom").read_text()


def test_metrics_file_is_checked_before_the_run(gridstead, use_fake_site, tmp_path):
    site = use_fake_site((record(changed={}), {"a": 0}))

    result = gridstead("provider", "drift", "--metrics", tmp_path / "none/drift.prom")

    assert result.code == 65
    assert site.requests == []


def test_drift_json_has_task_counts_and_changes(gridstead, use_fake_site):
    use_fake_site((record(), {"a": 2, "b": 0}))

    result = gridstead("provider", "drift", "--json")

    assert json.loads(result.out) == {
        "tasks": {"a": 2, "b": 0},
        "changed": {"a": ["x", "y"]},
    }
