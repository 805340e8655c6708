# SPDX-License-Identifier: Apache-2.0
"""Slurm's job states, and the start and run time of an attempt.

An attempt is a Slurm job that was submitted for a job of the grid.
"""

import pytest
from tests.unit.domain.builders import T0, accounting_sample, attempt, controller_sample, job

from gridstead.domain.supervisor.attempt import ALIVE_STATES, END_STATES, parse_base_state
from gridstead.errors import UnexpectedOutput


@pytest.mark.parametrize("state", sorted(ALIVE_STATES | END_STATES.keys()))
def test_state_of_slurm_is_accepted(state):
    assert parse_base_state(state, source="sacct") == state


@pytest.mark.parametrize("text", ["CANCELLED by 1000", "CANCELLED+"])
def test_suffix_of_a_state_is_removed(text):
    assert parse_base_state(text, source="sacct") == "CANCELLED"


@pytest.mark.parametrize("text", ["", "completed", "BEAMED_UP", " RUNNING"])
def test_unknown_state_is_refused(text):
    with pytest.raises(UnexpectedOutput, match="sacct"):
        parse_base_state(text, source="sacct")


@pytest.mark.parametrize(
    ("changes", "elapsed_s"),
    [
        ({}, 30),
        ({"suspended_s": 10}, 20),
        ({"suspended_s": 40}, 0),
        ({"ended_at": None}, 0),
        ({"started_at": None}, 0),
    ],
)
def test_elapsed_time_excludes_suspensions_and_is_never_negative(changes, elapsed_s):
    assert attempt(job(), "COMPLETED", **changes).elapsed_s == elapsed_s


@pytest.mark.parametrize(
    ("state", "changes", "has_started"),
    [
        ("PENDING", {}, False),
        ("CONFIGURING", {"started_at": T0}, False),
        ("RUNNING", {}, True),
        ("COMPLETED", {}, True),
        ("CANCELLED", {"started_at": None}, False),
        ("COMPLETED", {"ended_at": 0}, False),
    ],
)
def test_attempt_has_started_if_its_script_has_started(state, changes, has_started):
    assert attempt(job(), state, **changes).has_started == has_started


def test_attempts_of_a_sample_are_found_by_job_key():
    first_job, second_job = job(number=1), job(number=2)
    first_attempts = [attempt(first_job, slurm_job_id=number) for number in (1, 2)]
    second_attempt = attempt(second_job, slurm_job_id=3)
    foreign_attempt = attempt(first_job, slurm_job_id=4, job_key=None)
    attempts = [first_attempts[0], second_attempt, foreign_attempt, first_attempts[1]]

    for sample in (controller_sample(*attempts), accounting_sample(*attempts)):
        assert sample.by_job_key == {
            first_job.job_key: first_attempts,
            second_job.job_key: [second_attempt],
        }
