# SPDX-License-Identifier: Apache-2.0
"""Tests of the steps of the benchmarks with the real ReFrame, which runs them on this host."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.benchmarks import RecordingWatch

from gridstead.adapters.benchmarks.steps import JobOptions, ReframeSteps, split_tasks
from gridstead.adapters.slurm.local import LocalRunner
from gridstead.domain.benchmarks.site import Cause, Failure, Step
from gridstead.errors import UnexpectedOutput

REFRAME = Path(__file__).parents[3] / ".venv/benchmarks/bin/reframe"
STAND_IN = Path(__file__).with_name("slurm_stand_in.py")


def step(name, script, *, node="n1", limit_s=30, gpus_per_node=0):
    return Step(
        name=name,
        nodes=(node,),
        tasks_per_node=1,
        script=script,
        limit_s=limit_s,
        gpus_per_node=gpus_per_node,
    )


def local_steps(program, directory, watch=None):
    """Return the adapter with a ReFrame that runs the steps on this host."""
    jobs = JobOptions(partition="benchmarks", jobs_at_once=4, scheduler="local")
    return ReframeSteps(
        runner=None,
        program=program,
        directory=directory,
        jobs=jobs,
        watch=watch or RecordingWatch(),
    )


@pytest.fixture(scope="module")
def watch():
    return RecordingWatch()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, watch):
    shared_directory = tmp_path_factory.mktemp("shared")
    (shared_directory / "another-file").touch()
    steps = local_steps(REFRAME, shared_directory, watch)
    steps.directory.mkdir()
    (steps.directory / "left-by-an-earlier-run").touch()
    outcomes = steps.run(
        [
            step("good", "echo '0: one'; echo '1: two'; echo '0: three'"),
            step("bad", "echo 'the disk is full' >&2; exit 3"),
            step("slow", "sleep 60", limit_s=1),
        ]
    )
    assert not (steps.directory / "left-by-an-earlier-run").exists()
    assert (shared_directory / "another-file").exists()
    return outcomes


def test_a_step_returns_the_output_of_each_task(outcomes):
    assert outcomes["good"] == ("one\nthree\n", "two\n")


def test_a_failed_step_returns_its_exit_code_and_its_last_errors(outcomes):
    assert outcomes["bad"] == Failure(reason="sanity error: it exited with 3; the disk is full")


def test_a_step_that_exceeds_its_limit_has_failed(outcomes):
    assert outcomes["slow"] == Failure(reason="sanity error: it did not end within 1 s")


@pytest.mark.usefixtures("outcomes")
def test_the_start_and_the_end_of_each_step_are_reported(watch):
    names = ["bad", "good", "slow"]

    assert watch.events[0] == ("planned", 3)
    assert sorted(watch.events[1:]) == [
        ("ended", "good"),
        ("failed", "bad"),
        ("failed", "slow"),
        *[("started", name) for name in names],
    ]


def test_a_program_that_writes_no_report_is_an_error_with_its_output(tmp_path):
    program = tmp_path / "reframe"
    program.write_text("#!/bin/sh\necho 'settings are wrong'; exit 1\n")
    program.chmod(0o755)
    steps = local_steps(program, tmp_path)

    with pytest.raises(UnexpectedOutput, match="reframe") as caught:
        steps.run([step("any", "true")])

    assert "settings are wrong" in str(caught.value.detail)


def test_a_line_without_the_number_of_its_task_is_refused():
    with pytest.raises(UnexpectedOutput):
        split_tasks("0: a\nno number\n")


def test_control_characters_do_not_end_a_line():
    assert split_tasks("0: a\x0cb\r50 %\n1: c\n") == ("a\x0cb\r50 %\n", "c\n")


class StandInRunner:
    """Runs the commands of the stand-in."""

    def run(self, command):
        return LocalRunner().run(replace(command, environment=dict(os.environ)))


class StandInSlurm:
    """The stand-in for Slurm, first in the PATH of this process."""

    def __init__(self, directory, monkeypatch):
        self.state, programs = directory / "jobs", directory / "bin"
        self.state.mkdir()
        programs.mkdir()
        for name in ("sbatch", "srun", "sacct", "squeue", "scancel", "scontrol", "run-job"):
            program = programs / name
            program.write_bytes(STAND_IN.read_bytes())
            program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setenv("SLURM_STAND_IN", str(self.state))

    def jobs(self):
        files = sorted(self.state.glob("*.json"))
        return [json.loads(file.read_text()) for file in files]

    def steps(self, directory, **options):
        jobs = JobOptions(partition="benchmarks", jobs_at_once=4, **options)
        return ReframeSteps(
            StandInRunner(),
            program=REFRAME,
            directory=directory,
            jobs=jobs,
            watch=RecordingWatch(),
        )


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    return StandInSlurm(tmp_path, monkeypatch)


def test_jobs_have_the_nodes_the_gpus_and_the_reservation(slurm, tmp_path):
    steps = slurm.steps(tmp_path, reservation="repaired")

    outcomes = steps.run([step("good", "echo one", gpus_per_node=2)])

    (job,) = slurm.jobs()
    options = job["options"]
    assert outcomes == {"good": ("one\n",)}
    assert options["partition"] == "benchmarks"
    assert options["reservation"] == "repaired"
    assert options["nodelist"] == "n1"
    assert options["gres"] == "gpu:2"
    assert options["time"] == "0:1:30"


def test_preempted_jobs_and_jobs_that_do_not_start_have_their_own_causes(slurm, tmp_path):
    steps = slurm.steps(tmp_path, start_limit_s=1)

    outcomes = steps.run(
        [step("preempted", "true", node="paid1"), step("waiting", "true", node="down1")]
    )

    assert outcomes["preempted"].cause is Cause.PREEMPTED
    assert outcomes["waiting"].cause is Cause.NOT_STARTED
    assert [job["state"] for job in slurm.jobs()] == ["PREEMPTED", "CANCELLED"]


def test_a_job_that_cannot_be_submitted_does_not_stop_the_others(slurm, tmp_path):
    outcomes = slurm.steps(tmp_path).run(
        [step("lost", "true", node="lost1"), step("good", "echo one")]
    )

    assert outcomes["good"] == ("one\n",)
    assert "Unable to contact slurm controller" in outcomes["lost"].reason


# Runs a step that does not end, and prints when its job runs.
RUN_FOREVER = """
import signal, sys
from pathlib import Path
from tests.adapters.benchmarks.test_steps import JobOptions, REFRAME, ReframeSteps, StandInRunner
from tests.adapters.benchmarks.test_steps import RecordingWatch, step
signal.signal(signal.SIGTERM, signal.default_int_handler)
jobs = JobOptions(partition="benchmarks", jobs_at_once=4)
directory = Path(sys.argv[1])
script = f"touch {directory}/started; sleep 1000"
watch = RecordingWatch()
steps = ReframeSteps(
    StandInRunner(), program=REFRAME, directory=directory, jobs=jobs, watch=watch
)
steps.run([step("forever", script, limit_s=900)])
"""


@contextmanager
def running_forever(directory):
    """Yield a process that runs a step, whose job has started, and the process id of ReFrame."""
    with (directory / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_FOREVER, directory],
            cwd=Path(__file__).parents[3],
            stderr=errors,
        )
    try:
        while not (directory / "started").exists():
            assert process.poll() is None, (directory / "errors").read_text()
            time.sleep(0.05)
        (reframe,) = children(process.pid)
        yield process, reframe
    finally:
        process.kill()
        process.wait()


def test_the_next_run_cancels_the_jobs_of_a_killed_run(slurm, tmp_path):
    with running_forever(tmp_path) as (process, reframe):
        process.kill()
    while is_running(reframe):
        time.sleep(0.05)
    assert slurm.jobs()[0]["state"] == "RUNNING"

    slurm.steps(tmp_path).run([step("good", "echo one")])

    assert [job["state"] for job in slurm.jobs()] == ["CANCELLED", "COMPLETED"]


def test_an_interrupted_run_cancels_its_jobs_and_ends_reframe(slurm, tmp_path):
    with running_forever(tmp_path) as (process, reframe):
        process.send_signal(signal.SIGTERM)
        process.wait()

    assert "KeyboardInterrupt" in (tmp_path / "errors").read_text()
    assert [job["state"] for job in slurm.jobs()] == ["CANCELLED"]
    assert not is_running(reframe)


def children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def is_running(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
