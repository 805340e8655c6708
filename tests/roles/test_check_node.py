# SPDX-License-Identifier: Apache-2.0
"""The node health check: it drains unfit nodes, resumes fit nodes and ignores nodes drained by
others.
"""

import importlib.machinery
import importlib.util
import json
import subprocess
import time

import pytest
from tests.roles.catalogue import ROOT

FILE = ROOT / "roles/slurm/files/usr/local/sbin/gridstead-check-node"
LOADER = importlib.machinery.SourceFileLoader("gridstead_check_node", str(FILE))
program = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("gridstead_check_node", LOADER)
)


@pytest.fixture(autouse=True, scope="module")
def loaded():
    """Return the module of the program's text. No bytecode file is written."""
    exec(compile(FILE.read_text(), str(FILE), "exec"), program.__dict__)


class Slurmctld:
    """A node in a fake slurmctld, with a count of the queries."""

    def __init__(self):
        self.state, self.reason = ["IDLE"], ""
        self.asked, self.down = 0, False

    def scontrol(self, *words):
        self.asked += 1
        if self.down:
            raise subprocess.TimeoutExpired(words, 10)
        if words[0] == "update":
            changes = dict(word.split("=", 1) for word in words[1:])
            drains = changes["State"] == "DRAIN"
            self.state = ["IDLE", "DRAIN"] if drains else ["IDLE"]
            self.reason = changes["Reason"] if drains else ""
        return json.dumps({"nodes": [{"state": self.state, "reason": self.reason}]})


class Node:
    """A node whose only check tests whether a file exists."""

    def __init__(self, folder):
        self.file, self.checks, self.state = (
            folder / "mounted",
            folder / "checks.json",
            folder / "state",
        )
        self.file.touch()
        self.check("test", "-e", str(self.file))

    def check(self, *argv, wait_s=5):
        self.checks.write_text(json.dumps([{"what": "storage", "argv": argv, "wait_s": wait_s}]))

    def note_unkillable(self, job):
        (self.state / "unkillable").mkdir(parents=True)
        (self.state / "unkillable" / str(job)).touch()

    def run(self):
        return program.main("compute1", self.checks, self.state)


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
    assert (slurmctld.state, slurmctld.reason) == (["IDLE", "DRAIN"], "unfit: storage: status 1")

    node.file.touch()
    node.run()
    assert slurmctld.state == ["IDLE"]


def test_a_number_is_accepted_as_an_argument(node, slurmctld):
    node.check("test", 1, "-eq", 1)
    node.run()
    assert slurmctld.state == ["IDLE"]


def test_slurmctld_is_queried_once_while_the_checks_pass(node, slurmctld):
    node.run()
    asked = slurmctld.asked

    node.run()

    assert slurmctld.asked == asked


def test_an_unfit_node_that_was_resumed_manually_is_drained_again(node, slurmctld):
    node.file.unlink()
    node.run()
    slurmctld.state = ["IDLE"]

    node.run()

    assert (slurmctld.state, slurmctld.reason) == (["IDLE", "DRAIN"], "unfit: storage: status 1")


def test_a_fit_node_is_resumed_after_a_reboot(node, slurmctld):
    slurmctld.state, slurmctld.reason = ["IDLE", "DRAIN"], "unfit: storage: status 1"

    node.run()

    assert slurmctld.state == ["IDLE"]


def test_a_manually_drained_node_is_not_changed(node, slurmctld):
    slurmctld.state, slurmctld.reason = ["IDLE", "DRAIN"], "new disks"
    node.run()
    node.file.unlink()
    node.run()
    assert (slurmctld.state, slurmctld.reason) == (["IDLE", "DRAIN"], "new disks")

    slurmctld.state, slurmctld.reason = ["IDLE"], ""  # they are done, and the node is still unfit
    node.run()
    assert "DRAIN" in slurmctld.state


@pytest.fixture
def processes(monkeypatch, tmp_path):
    """A function that starts a process in a control group and returns a function that ends it."""
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
def test_a_node_resumes_after_all_processes_of_an_unkillable_job(node, slurmctld, processes, group):
    node.run()
    end = processes(7, group)
    node.note_unkillable(38)
    slurmctld.state, slurmctld.reason = ["IDLE", "DRAIN"], "Kill task failed"
    node.run()
    assert slurmctld.reason == "unfit: job 38 does not end though it was killed"

    end()
    node.run()
    assert slurmctld.state == ["IDLE"]

    asked = slurmctld.asked
    node.run()
    assert slurmctld.asked == asked


@pytest.mark.parametrize("drained_by_hand", [False, True])
def test_processes_of_other_jobs_do_not_keep_a_node_drained(
    node, slurmctld, processes, drained_by_hand
):
    processes(7, "/system.slice/compute1_slurmstepd.scope/job_380/step_0/user/task_0")
    node.note_unkillable(38)
    slurmctld.state, slurmctld.reason = (
        ["IDLE", "DRAIN"],
        "new disks" if drained_by_hand else "Kill task failed",
    )

    node.run()

    assert ("DRAIN" in slurmctld.state) is drained_by_hand


def test_a_node_resumes_if_slurmctld_was_down_at_the_jobs_end(node, slurmctld, processes):
    node.note_unkillable(38)
    slurmctld.state, slurmctld.reason, slurmctld.down = ["IDLE", "DRAIN"], "Kill task failed", True
    node.run()

    slurmctld.down = False
    node.run()

    assert slurmctld.state == ["IDLE"]


@pytest.mark.parametrize("down", [False, True])
def test_the_time_of_the_check_is_recorded_for_other_states_too(node, slurmctld, down):
    slurmctld.state, slurmctld.reason, slurmctld.down = ["IDLE", "DRAIN"], "new disks", down
    node.file.unlink()

    node.run()

    assert {file.name for file in node.state.iterdir()} == {"0.lock", "ran"}


def test_a_result_that_slurmctld_did_not_receive_is_sent_again(node, slurmctld):
    node.file.unlink()
    slurmctld.down = True
    assert node.run() == program.EXIT_NOT_REPORTED

    slurmctld.down = False
    assert node.run() == 0
    assert "DRAIN" in slurmctld.state


def test_a_check_that_cannot_run_or_is_killed_fails(node, slurmctld):
    node.check("/no/such/program")
    node.run()
    assert slurmctld.reason == "unfit: storage: No such file or directory"

    node.check("sh", "-c", "kill $$")
    node.run()
    assert slurmctld.reason == "unfit: storage: status -15"


# What was killed is not waited for: it may hang for good.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
def test_a_hanging_check_is_not_started_twice(node, slurmctld, tmp_path):
    starts, end = tmp_path / "starts", tmp_path / "end"
    # The shell is killed; what it waits for lives on, as a process does that waits for a dead file
    # system.
    node.check(
        "sh", "-c", f"echo >>{starts}; until test -e {end}; do sleep 0.05; done & wait", wait_s=1
    )
    node.run()
    node.run()
    assert (slurmctld.reason, starts.read_text()) == ("unfit: storage: no answer", "\n")

    end.touch()
    node.check("true")
    until = time.monotonic() + 60
    while "DRAIN" in slurmctld.state and time.monotonic() < until:
        node.run()
        time.sleep(0.05)
    assert slurmctld.state == ["IDLE"]
