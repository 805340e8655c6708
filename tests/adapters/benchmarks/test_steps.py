# SPDX-License-Identifier: Apache-2.0
"""Tests of the steps of the benchmarks with the real ReFrame, which runs them on this host."""

from pathlib import Path

import pytest
from tests.fakes.benchmarks import RecordingWatch

from gridstead.adapters.benchmarks.steps import ReframeSteps, split_tasks
from gridstead.domain.benchmarks.site import Failure, Step
from gridstead.errors import UnexpectedOutput

REFRAME = Path(__file__).parents[3] / ".venv/benchmarks/bin/reframe"


def step(name, script, *, limit_s=30):
    return Step(name=name, nodes=("n1",), tasks_per_node=1, script=script, limit_s=limit_s)


def local_steps(program, directory, watch=None):
    """Return the adapter with a ReFrame that runs the steps on this host."""
    return ReframeSteps(
        runner=None,
        program=program,
        directory=directory,
        partition="benchmarks",
        jobs_at_once=4,
        watch=watch or RecordingWatch(),
        scheduler="local",
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
    assert "timed out" in outcomes["slow"].reason


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
