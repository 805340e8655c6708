# SPDX-License-Identifier: Apache-2.0
"""The parsers of Slurm's output, on recorded output of every supported version."""

from dataclasses import replace

import pytest

from gridstead.adapters.slurm import commands, failures
from gridstead.domain.supervisor.attempt import ALIVE_STATES, END_STATES
from gridstead.errors import UnexpectedOutput

USER = f"0x{1:040d}"
# The recorder is the program that submitted these jobs and recorded Slurm's output. The states are
# those in the listing squeue-while-running, by job number.
STATES = {
    1: "COMPLETED",
    2: "FAILED",
    3: "FAILED",
    4: "FAILED",
    5: "RUNNING",
    6: "RUNNING",
    7: "CANCELLED",
    8: "CANCELLED",
    9: "PENDING",
    10: "RUNNING",
    11: "SUSPENDED",
    12: "OUT_OF_MEMORY",
}


def by_job_number(attempts):
    """Return the attempts that the recorder submitted, by job number."""
    attempts_by_number = {}
    for attempt in attempts:
        job_key = attempt.job_key
        if job_key is not None and job_key.batch_location_hash.startswith("rec"):
            attempts_by_number[job_key.job_id.number] = attempt
    return attempts_by_number


def test_squeue_lists_every_job_with_its_state_and_user(read_recorded):
    jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-while-running")))

    assert jobs.keys() == STATES.keys()
    for number, job in jobs.items():
        assert job.state == STATES[number]
        assert job.user == USER


# As in wait(2), exit code 3 is the number 3 << 8, and the end by signal 9 is the number 9.
@pytest.mark.parametrize(("number", "exit_code"), [(1, 0), (2, 3 << 8), (3, 137 << 8), (4, 9)])
def test_squeue_lists_the_exit_codes(read_recorded, number, exit_code):
    jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-after-the-end")))

    assert jobs[number].exit_code == exit_code


@pytest.mark.parametrize(("number", "minutes"), [(1, None), (5, 1), (6, 2 * 1440 + 184)])
def test_squeue_lists_time_limits_in_minutes(read_recorded, number, minutes):
    jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-while-running")))

    assert jobs[number].time_limit_min == minutes


def test_estimated_start_and_end_of_squeue_are_ignored(read_recorded):
    jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-while-running")))

    assert jobs[9].started_at is None
    assert jobs[9].ended_at is None
    assert jobs[6].started_at is not None
    assert jobs[6].ended_at is None


def test_job_that_was_cancelled_in_the_queue_has_not_started(read_recorded):
    jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-while-running")))

    assert jobs[7].has_started
    assert not jobs[8].has_started
    assert jobs[8].ended_at is not None


def test_elapsed_time_of_squeue_and_sacct_excludes_suspensions(read_recorded):
    squeue_job = by_job_number(commands.parse_squeue(read_recorded("squeue-after-the-end")))[11]
    sacct_job = by_job_number(commands.parse_sacct(read_recorded("sacct")))[11]

    expected_s = squeue_job.ended_at - squeue_job.started_at - squeue_job.suspended_s
    assert squeue_job.suspended_s > 0
    assert squeue_job.elapsed_s == expected_s
    assert sacct_job.elapsed_s == expected_s


def test_hostile_job_name_does_not_affect_the_other_fields_of_squeue(read_recorded):
    jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-while-running")))

    assert jobs[10].name == "a|b\nc  200001 COMPLETED\t'\"$(id)é"
    assert jobs[10].state == "RUNNING"


def test_line_in_a_job_name_is_not_parsed_as_a_job(read_recorded):
    listing = read_recorded("squeue-one").rstrip()
    line_in_the_name = "999  root  RUNNING".ljust(60)

    (job,) = commands.parse_squeue(f"{listing}\n{line_in_the_name}\n")

    assert job.slurm_job_id == commands.parse_squeue(listing)[0].slurm_job_id


def test_squeue_of_one_job_lists_that_job(read_recorded):
    (job,) = commands.parse_squeue(read_recorded("squeue-one"))

    assert job.job_key.job_id.number == 1


def test_sacct_has_the_job_keys_of_ended_jobs_only(read_recorded):
    states_with_key = set()
    states_without_key = set()
    for attempt in commands.parse_sacct(read_recorded("sacct")):
        if attempt.job_key is not None:
            states_with_key.add(attempt.state)
        else:
            states_without_key.add(attempt.state)

    assert states_with_key <= set(END_STATES)
    assert states_without_key == {"RUNNING", "PENDING"}


def test_sacct_and_squeue_agree_on_ended_jobs(read_recorded):
    squeue_jobs = by_job_number(commands.parse_squeue(read_recorded("squeue-after-the-end")))
    sacct_jobs = by_job_number(commands.parse_sacct(read_recorded("sacct")))

    for number, attempt in sacct_jobs.items():
        expected = replace(squeue_jobs[number], exit_code=attempt.exit_code, time_limit_min=None)
        assert expected == attempt


@pytest.mark.parametrize(
    ("listing", "failed_steps"),
    [
        ("7|2:0\n7.batch|2:0\n7.0|0:0\n7.1|2:0\n7.2|0:0\n", {7: 2}),
        ("7|2:0\n7.1|2:0\n7.10|2:0\n7.9|2:0\n", {7: 11}),  # the last one counts
        ("7|2:0\n7.batch|2:0\n7.0|1:0\n", {}),  # the script exited with another code
        ("7|2:0\n7.0|2:0\n8|1:0\n8.0|2:0\n8.1|1:0\n", {7: 1, 8: 2}),
        ("", {}),
    ],
)
def test_failed_step_is_the_last_step_with_the_exit_code_of_the_job(listing, failed_steps):
    assert failures.parse_failed_steps(listing) == failed_steps


def test_sacct_json_has_the_correct_exit_code_where_the_text_is_wrong(read_recorded):
    attempt = by_job_number(commands.parse_sacct(read_recorded("sacct")))[3]
    exits = failures.parse_sacct_json(read_recorded("sacct-json"))

    assert attempt.exit_code == 9 << 8
    job_exit = exits[attempt.slurm_job_id, attempt.submitted_at]
    assert job_exit == failures.JobExit(wait_status=137 << 8, is_step_out_of_memory=False)


def test_sdiag_has_the_size_of_the_queue_to_slurmdbd(read_recorded):
    assert commands.parse_dbd_queue(read_recorded("sdiag")) == 0


def test_association_matches_only_the_whole_account_name(read_recorded):
    listing = read_recorded("associations")

    assert commands.parse_associated(listing, USER, account="grid")
    assert not commands.parse_associated(listing, USER, account="gri")
    assert not commands.parse_associated("", USER, account="grid")


def test_every_state_of_squeue_is_known_as_alive_or_ended(read_recorded):
    """An unknown state must never count as a success."""
    states = set(read_recorded("helpstate").upper().split())

    unknown_states = states - ALIVE_STATES - END_STATES.keys()
    assert unknown_states == set()


def test_token_is_parsed(read_recorded):
    assert commands.parse_token(read_recorded("token")) == "header.claims.signature"


@pytest.mark.parametrize(
    ("parse", "malformed"),
    [
        (commands.parse_squeue, "slurm_load_jobs error: Invalid job id specified\n"),
        (commands.parse_sacct, "1|a|COMPLETED\n"),
        (commands.parse_sacct, "1|a|ASLEEP|0:0|1|1|1|0||n\n"),
        (commands.parse_sacct, "1|a|COMPLETED|0|1|1|1|0||n\n"),
        (commands.parse_sacct, "1|a|COMPLETED|0:0|2026-01-01T00:00:00|1|1|0||n\n"),
        (commands.parse_sacct, "1|a|COMPLETED|0:0|Unknown|1|1|0||n\n"),
        (failures.parse_sacct_json, "{}"),
        (failures.parse_sacct_json, "no"),
        (failures.parse_failed_steps, "1.0"),
        (failures.parse_failed_steps, "1.0|2"),
        (commands.parse_dbd_queue, "Agent queue size: 3\n"),
        (commands.parse_token, "nonsense"),
    ],
)
def test_malformed_output_is_an_error(parse, malformed):
    with pytest.raises(UnexpectedOutput):
        parse(malformed)


def test_squeue_with_an_unknown_state_is_an_error(read_recorded):
    with pytest.raises(UnexpectedOutput):
        commands.parse_squeue(read_recorded("squeue-one").replace("COMPLETED", "ASLEEP   "))


def with_field(row, field, value):
    """Return a row of squeue with one field changed. The other fields keep their positions."""
    start = 0
    for name, width in commands._SQUEUE_FIELDS:
        if name == field:
            return row[:start] + value.ljust(width) + row[start + width :]
        start += width
    raise ValueError(field)


def row_of(listing, slurm_job_id):
    """Return the row of a job in a squeue listing."""
    for line in listing.split("\n"):
        if line.startswith(f"{slurm_job_id} "):
            return line
    raise ValueError(slurm_job_id)


@pytest.mark.parametrize(
    ("field", "value"),
    [("TimeUsed", "INVALID"), ("State", "ASLEEP"), ("SubmitTime", "N/A"), ("exit_code", "?")],
)
def test_malformed_row_of_squeue_without_a_job_key_is_ignored(read_recorded, field, value):
    row = read_recorded("squeue-one").rstrip("\n")
    row_without_key = with_field(row, "admin_comment", "")
    malformed_row = with_field(row_without_key, field, value)

    assert commands.parse_squeue(f"{malformed_row}\n{row}\n") == commands.parse_squeue(f"{row}\n")


@pytest.mark.parametrize("field", ["State", "SubmitTime", "exit_code", "TimeUsed"])
def test_malformed_row_of_squeue_with_a_job_key_is_an_error(read_recorded, field):
    row = read_recorded("squeue-one").rstrip("\n")

    with pytest.raises(UnexpectedOutput):
        commands.parse_squeue(with_field(row, field, "INVALID"))


def test_malformed_used_time_of_a_live_job_is_ignored(read_recorded):
    listing = read_recorded("squeue-while-running")
    running_job = by_job_number(commands.parse_squeue(listing))[5]
    row = with_field(row_of(listing, running_job.slurm_job_id), "TimeUsed", "INVALID")

    assert commands.parse_squeue(row) == (running_job,)


def test_empty_output_has_no_jobs():
    assert commands.parse_squeue("") == ()
    assert commands.parse_sacct("") == ()


def test_sacct_is_limited_to_job_names_and_a_start_time():
    argv = commands.sacct(["0xaa", "0xbb"], since=1700000000).argv

    assert "--name=0xaa,0xbb" in argv
    assert "--starttime=uts1700000000" in argv
    assert "--duplicates" in argv


def test_times_are_independent_of_the_time_zone_of_the_host():
    environment = commands.squeue().environment

    assert environment["TZ"] == "UTC"
    assert environment["SLURM_TIME_FORMAT"] == "%s"
