# SPDX-License-Identifier: Apache-2.0
"""tools/check-runner.sh: a check in the background, and an interrupt."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
HEAD = "source tools/check-runner.sh; trap stop_background EXIT; "
# Like pytest, this check handles SIGINT and ends with an exit code.
CHECK = "trap 'echo interrupted; exit 2' INT; echo running; for i in {1..200}; do sleep 0.05; done"


@pytest.fixture
def start():
    """Return a function that starts a program of checks as a terminal starts it."""

    def start_program(text):
        return subprocess.Popen(
            ["bash", "-c", f"{HEAD}{text}"], cwd=CHECKOUT, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    return start_program


@pytest.mark.parametrize("code", [0, 3])
def test_the_output_and_the_result_of_a_background_check_are_reported(start, code):
    program = start(
        f"start_background bash -c 'echo found; exit {code}';"
        " run_check late wait_for_background; finish"
    )

    output, _ = program.communicate(timeout=20)

    assert output.splitlines()[1] == "found"
    assert program.returncode == bool(code)


def test_failed_tests_are_listed_again_at_the_end(start):
    first_output = "E   assert 1 == 2\\nFAILED tests/test_it.py::test_it\\nmore\\n"
    program = start(
        f"run_check early keep_output bash -c 'printf \"{first_output}\"; exit 1';"
        " run_check late echo other; list_failures; finish"
    )

    output, _ = program.communicate(timeout=20)

    assert output.splitlines()[-3:-1] == ["E   assert 1 == 2", "FAILED tests/test_it.py::test_it"]
    assert output.count("FAILED tests/test_it.py::test_it") == 2
    assert program.returncode == 1


def test_an_interrupt_ends_the_running_check_and_starts_no_other(start):
    program = start(f'run_check first bash -c "{CHECK}"; run_check second echo started')
    lines = [program.stdout.readline(), program.stdout.readline()]
    assert lines[-1] == "running\n"

    os.killpg(program.pid, signal.SIGINT)  # a terminal signals the whole process group
    output, _ = program.communicate(timeout=20)

    assert output == "interrupted\n"
    assert program.returncode == 130


def test_an_interrupt_ends_the_background_check_with_its_children(start, tmp_path):
    """tools/lint runs a program for each static check."""
    record = tmp_path / "record"
    program = start(
        f'start_background bash -c "({CHECK}) >{record}; true"; run_check wait sleep 10'
    )
    program.stdout.readline()
    while not (record.exists() and record.read_text()):
        assert program.poll() is None

    os.killpg(program.pid, signal.SIGINT)
    program.communicate(timeout=20)

    assert record.read_text() == "running\ninterrupted\n"
