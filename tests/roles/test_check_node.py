# SPDX-License-Identifier: Apache-2.0
"""gridstead-check-node drains unfit nodes, resumes fit nodes and ignores manually drained nodes.

A node is fit if all checks of the node pass. The program contacts slurmctld if the node is unfit
or the result has changed within the last minute. The program resumes a node if the program itself
has drained the node, or if Slurm has drained the node because of an unkillable job.
"""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest
from tests.roles.catalogue import ROOT
from tests.roles.content import names_in

FILE = ROOT / "roles/slurm/files/usr/local/sbin/gridstead-check-node"
LOADER = importlib.machinery.SourceFileLoader("gridstead_check_node", str(FILE))
program = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("gridstead_check_node", LOADER)
)


@pytest.fixture(autouse=True, scope="module")
def load_program():
    """Execute the text of gridstead-check-node as a module, without writing a bytecode file."""
    exec(compile(FILE.read_text(), str(FILE), "exec"), program.__dict__)


class Slurmctld:
    """A fake slurmctld for one node, which counts the calls of scontrol."""

    def __init__(self):
        self.state = ["IDLE"]
        self.reason = ""
        self.calls = 0
        self.is_down = False

    def drain(self, reason):
        """Drain the node, as an administrator or Slurm itself does."""
        self.state = ["IDLE", "DRAIN"]
        self.reason = reason

    def scontrol(self, *words):
        self.calls += 1
        if self.is_down:
            raise subprocess.TimeoutExpired(words, 10)
        if words[0] == "update":
            changes = dict(word.split("=", 1) for word in words[1:])
            if changes["State"] == "DRAIN":
                self.drain(changes["Reason"])
            else:
                self.state = ["IDLE"]
                self.reason = ""
        return json.dumps({"nodes": [{"state": self.state, "reason": self.reason}]})


class Node:
    """A node whose only check tests whether a file exists."""

    def __init__(self, folder):
        self.file = folder / "mounted"
        self.checks = folder / "checks.json"
        self.state_folder = folder / "state"
        self.file.touch()
        self.set_check("test", "-e", str(self.file))

    def set_check(self, *argv, wait_s=5):
        """Replace the command of the node's check."""
        self.checks.write_text(json.dumps([{"what": "storage", "argv": argv, "wait_s": wait_s}]))

    def record_unkillable(self, job):
        """Record an unkillable job, as Slurm's UnkillableStepProgram does on a node of the site."""
        (self.state_folder / "unkillable").mkdir(parents=True)
        (self.state_folder / "unkillable" / str(job)).touch()

    def let_slurmctld_save(self):
        """Pretend that the last report is so old that slurmctld has saved its state."""
        report_s = time.time() - program.REPORT_AGAIN_S - 1
        os.utime(self.state_folder / "reported", (report_s, report_s))

    def run(self):
        """Run the health check and return its exit code."""
        return program.main("compute1", self.checks, self.state_folder)


@pytest.fixture
def slurmctld(monkeypatch):
    slurmctld = Slurmctld()
    monkeypatch.setattr(program, "scontrol", slurmctld.scontrol)
    return slurmctld


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_an_unfit_node_is_drained_and_resumed_when_its_checks_pass(node, slurmctld):
    node.file.unlink()
    node.run()
    assert "DRAIN" in slurmctld.state
    assert slurmctld.reason == "unfit: storage: status 1"

    node.file.touch()
    node.run()
    assert slurmctld.state == ["IDLE"]


def test_a_run_during_another_run_drains_no_node(node, slurmctld):
    """On a slow node, a run may last longer than the interval of slurmd."""
    later_run = f"""
import importlib.machinery, importlib.util, pathlib, sys
loader = importlib.machinery.SourceFileLoader("program", {str(FILE)!r})
program = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
sys.dont_write_bytecode = True
loader.exec_module(program)
program.scontrol = lambda *words: sys.exit("called scontrol")
sys.exit(program.main("compute1", *map(pathlib.Path, sys.argv[1:])))
"""
    command = [sys.executable, "-c", later_run, str(node.checks), str(node.state_folder)]
    node.set_check(*command, wait_s=60)

    node.run()

    assert slurmctld.state == ["IDLE"]


def test_an_argument_of_a_check_may_be_a_number(node, slurmctld):
    node.set_check("test", 1, "-eq", 1)
    node.run()
    assert slurmctld.state == ["IDLE"]


def test_a_second_run_whose_checks_pass_does_not_contact_slurmctld(node, slurmctld):
    node.run()
    node.let_slurmctld_save()
    calls = slurmctld.calls

    node.run()

    assert slurmctld.calls == calls


def test_a_node_is_resumed_if_a_killed_slurmctld_lost_the_resumption(node, slurmctld):
    node.file.unlink()
    node.run()
    drained = (slurmctld.state, slurmctld.reason)
    node.file.touch()
    node.run()
    slurmctld.state, slurmctld.reason = drained

    node.run()
    assert slurmctld.state == ["IDLE"]

    # A repeated report does not start another minute of reports.
    node.let_slurmctld_save()
    node.run()
    calls = slurmctld.calls
    node.run()
    assert slurmctld.calls == calls


def test_a_node_is_resumed_if_the_answer_to_its_draining_was_lost(node, slurmctld, monkeypatch):
    node.run()
    node.let_slurmctld_save()

    def lose_answer(*words):
        output = slurmctld.scontrol(*words)
        if words[0] == "update":
            raise subprocess.TimeoutExpired(words, 10)
        return output

    with monkeypatch.context() as context:
        context.setattr(program, "scontrol", lose_answer)
        node.file.unlink()
        assert node.run() == program.EXIT_NOT_REPORTED
    assert "DRAIN" in slurmctld.state

    node.file.touch()
    node.run()
    assert slurmctld.state == ["IDLE"]


def test_an_unfit_node_that_was_resumed_manually_is_drained_again(node, slurmctld):
    node.file.unlink()
    node.run()
    slurmctld.state = ["IDLE"]

    node.run()

    assert "DRAIN" in slurmctld.state
    assert slurmctld.reason == "unfit: storage: status 1"


def test_a_fit_node_is_resumed_after_a_reboot(node, slurmctld):
    # A reboot removes the state folder of the program. slurmctld still has the program's reason.
    slurmctld.drain("unfit: storage: status 1")

    node.run()

    assert slurmctld.state == ["IDLE"]


def test_a_manually_drained_node_is_not_changed(node, slurmctld):
    slurmctld.drain("new disks")
    node.run()
    node.file.unlink()
    node.run()
    assert "DRAIN" in slurmctld.state
    assert slurmctld.reason == "new disks"

    # The administrator resumes the node, which is still unfit.
    slurmctld.state, slurmctld.reason = ["IDLE"], ""
    node.run()
    assert "DRAIN" in slurmctld.state


@pytest.fixture
def start_process(monkeypatch, tmp_path):
    """Return a function that adds a process in a control group to a fake /proc.

    The returned function itself returns a function that removes the process.
    """
    proc = tmp_path / "proc"
    monkeypatch.setattr(program, "PROC", proc)

    def start(pid, group):
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "cgroup").write_text(f"1:name=systemd:/system.slice\n0::{group}\n")
        return (proc / str(pid) / "cgroup").unlink

    return start


@pytest.mark.parametrize(
    "group",
    [
        "/system.slice/compute1_slurmstepd.scope/job_38/step_extern/slurm",
        "/slurm_compute1/uid_200001/job_38",
    ],
)
def test_a_node_is_resumed_when_all_processes_of_an_unkillable_job_have_ended(
    node, slurmctld, start_process, group
):
    node.run()
    end_process = start_process(7, group)
    node.record_unkillable(38)
    slurmctld.drain("Kill task failed")
    node.run()
    assert slurmctld.reason == "unfit: job 38 does not end though it was killed"

    end_process()
    node.run()
    assert slurmctld.state == ["IDLE"]

    node.let_slurmctld_save()
    calls = slurmctld.calls
    node.run()
    assert slurmctld.calls == calls


@pytest.mark.parametrize(
    ("reason", "stays_drained"), [("Kill task failed", False), ("new disks", True)]
)
def test_processes_of_other_jobs_do_not_keep_a_node_drained(
    node, slurmctld, start_process, reason, stays_drained
):
    start_process(7, "/system.slice/compute1_slurmstepd.scope/job_380/step_0/user/task_0")
    node.record_unkillable(38)
    slurmctld.drain(reason)

    node.run()

    assert ("DRAIN" in slurmctld.state) is stays_drained


def test_a_node_is_resumed_if_slurmctld_was_down_at_the_jobs_end(node, slurmctld, start_process):
    node.record_unkillable(38)
    slurmctld.drain("Kill task failed")
    slurmctld.is_down = True
    node.run()

    slurmctld.is_down = False
    node.run()

    assert slurmctld.state == ["IDLE"]


@pytest.mark.parametrize("is_down", [False, True])
def test_a_run_is_recorded_even_if_the_state_of_the_node_is_not_changed(node, slurmctld, is_down):
    slurmctld.drain("new disks")
    slurmctld.is_down = is_down
    node.file.unlink()

    node.run()

    assert names_in(node.state_folder) == {"0.lock", "ran", "run.lock"}


def test_a_result_that_slurmctld_did_not_receive_is_sent_again(node, slurmctld):
    node.file.unlink()
    slurmctld.is_down = True
    assert node.run() == program.EXIT_NOT_REPORTED

    slurmctld.is_down = False
    assert node.run() == 0
    assert "DRAIN" in slurmctld.state


def test_a_check_that_cannot_run_or_is_killed_fails(node, slurmctld):
    node.set_check("/no/such/program")
    node.run()
    assert slurmctld.reason == "unfit: storage: No such file or directory"

    node.set_check("sh", "-c", "kill $$")
    node.run()
    assert slurmctld.reason == "unfit: storage: status -15"


# The program does not wait for a killed check, because the check may hang forever.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
def test_a_hanging_check_is_not_started_twice(node, slurmctld, tmp_path):
    starts = tmp_path / "starts"
    end = tmp_path / "end"
    # The program kills the shell but not the shell's background process, which continues like a
    # process that waits for a dead file system.
    loop = f"until test -e {end}; do sleep 0.05; done"
    node.set_check("sh", "-c", f"echo started >>{starts}; {loop} & wait", wait_s=1)
    node.run()
    node.run()
    assert slurmctld.reason == "unfit: storage: no answer"
    assert starts.read_text() == "started\n"

    end.touch()
    node.set_check("true")
    deadline = time.monotonic() + 60
    while "DRAIN" in slurmctld.state and time.monotonic() < deadline:
        node.run()
        time.sleep(0.05)
    assert slurmctld.state == ["IDLE"]
