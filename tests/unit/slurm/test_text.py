# SPDX-License-Identifier: Apache-2.0
"""What real Slurm printed, read by our parsers, for every version that was recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridstead.adapters.slurm import text
from gridstead.domain.attempt import ALIVE_STATES, END_STATES
from gridstead.errors import UnexpectedOutput

RECORDED = Path(__file__).parents[2] / "adapters" / "slurm" / "recorded"
USER = f"0x{1:040d}"


@pytest.fixture(params=sorted(path.name for path in RECORDED.iterdir() if path.is_dir()))
def recorded(request):
    return lambda situation: (RECORDED / request.param / f"{situation}.txt").read_text(
        encoding="utf-8"
    )


def by_number(attempts):
    """The recorder's jobs carry their number at the end of the job key."""
    return {
        a.job_key.job_id.number: a
        for a in attempts
        if a.job_key and a.job_key.batch_location_hash.startswith("rec")
    }


def test_squeue_tells_every_job_while_they_run(recorded):
    jobs = by_number(text.parse_squeue(recorded("squeue-while-running")))

    assert set(range(1, 13)) == set(jobs)
    assert {number: job.state for number, job in jobs.items()} == {
        1: "COMPLETED", 2: "FAILED", 3: "FAILED", 4: "FAILED", 5: "RUNNING", 6: "RUNNING", 7: "CANCELLED",
        8: "CANCELLED", 9: "PENDING", 10: "RUNNING", 11: "SUSPENDED", 12: "OUT_OF_MEMORY",
    }  # fmt: skip
    assert {USER} == {job.user for job in jobs.values()}


def test_squeue_tells_exit_codes_as_they_were(recorded):
    jobs = by_number(text.parse_squeue(recorded("squeue-after-the-end")))

    assert [jobs[number].exit_code for number in (1, 2, 3, 4)] == [0, 3 << 8, 137 << 8, 9]


def test_squeue_tells_limits_in_minutes(recorded):
    jobs = by_number(text.parse_squeue(recorded("squeue-while-running")))

    assert [jobs[number].time_limit_min for number in (1, 5, 6)] == [None, 1, 2 * 1440 + 184]


def test_squeue_does_not_take_a_forecast_for_a_start_or_an_end(recorded):
    jobs = by_number(text.parse_squeue(recorded("squeue-while-running")))

    assert (jobs[9].started_at, jobs[9].ended_at) == (None, None)
    assert jobs[6].started_at is not None
    assert jobs[6].ended_at is None


def test_squeue_tells_that_a_job_cancelled_in_the_queue_never_started(recorded):
    jobs = by_number(text.parse_squeue(recorded("squeue-while-running")))

    assert jobs[7].started
    assert not jobs[8].started
    assert jobs[8].ended_at is not None


def test_squeue_and_sacct_leave_suspension_out_of_the_elapsed_time(recorded):
    queued = by_number(text.parse_squeue(recorded("squeue-after-the-end")))[11]
    accounted = by_number(text.parse_sacct(recorded("sacct")))[11]

    assert queued.suspended_s > 0
    assert (
        queued.elapsed_s
        == accounted.elapsed_s
        == queued.ended_at - queued.started_at - queued.suspended_s
    )


def test_squeue_keeps_a_hostile_name_out_of_the_other_fields(recorded):
    jobs = by_number(text.parse_squeue(recorded("squeue-while-running")))

    assert jobs[10].name == "a|b\nc  200001 COMPLETED\t'\"$(id)é"
    assert jobs[10].state == "RUNNING"


def test_squeue_does_not_take_lines_inside_a_name_for_jobs(recorded):
    listing = recorded("squeue-one")
    forged = listing.rstrip("\n").rstrip() + "\n" + "999  root  RUNNING".ljust(60) + "\n"

    (job,) = text.parse_squeue(forged)

    assert text.parse_squeue(listing)[0].slurm_job_id == job.slurm_job_id


def test_squeue_of_one_job_is_that_job(recorded):
    (job,) = text.parse_squeue(recorded("squeue-one"))

    assert job.job_key.job_id.number == 1


def test_sacct_tells_ended_jobs_with_their_job_key_and_live_ones_without(recorded):
    rows = text.parse_sacct(recorded("sacct"))

    assert all((row.job_key is not None) == (row.state in END_STATES) for row in rows)
    assert {"RUNNING", "PENDING"} == {row.state for row in rows if row.state in ALIVE_STATES}


def test_sacct_agrees_with_squeue_on_what_ended(recorded):
    queued = by_number(text.parse_squeue(recorded("squeue-after-the-end")))
    accounted = by_number(text.parse_sacct(recorded("sacct")))

    for number, row in accounted.items():
        same = replace(queued[number], exit_code=row.exit_code, time_limit_min=None)
        assert same == row


def test_sacct_json_mends_the_exit_codes_that_text_gets_wrong(recorded):
    row = by_number(text.parse_sacct(recorded("sacct")))[3]
    codes = text.parse_sacct_json(recorded("sacct-json"))

    assert row.exit_code == 9 << 8
    assert codes[row.slurm_job_id, row.submitted_at] == 137 << 8


def test_sdiag_tells_the_queue_to_slurmdbd(recorded):
    assert text.parse_dbd_queue(recorded("sdiag")) == 0


def test_nodes_are_what_jobs_can_get(recorded):
    hardware = text.parse_nodes(recorded("nodes"))

    assert (
        hardware.gpus_per_node, hardware.cpus_per_node, hardware.memory_per_node_mb,
    ) == ((0,), (64,), (4000,))  # fmt: skip


def test_nodes_count_gpus_and_sort_by_name(recorded):
    line = recorded("nodes").strip()
    second = line.replace("compute1", "compute0").replace(
        "billing=64", "billing=64,gres/gpu=4,gres/gpu:a100=4"
    )

    assert text.parse_nodes(f"{line}\n{second}\n").gpus_per_node == (4, 0)


def test_associations_are_matched_whole(recorded):
    listing = recorded("associations")

    assert text.parse_associated(listing, USER, account="grid")
    assert not text.parse_associated(listing, USER, account="gri")
    assert not text.parse_associated("", USER, account="grid")


def test_every_state_of_squeue_is_in_a_table(recorded):
    """Unknown is never success."""
    states = {line.strip().upper() for line in recorded("helpstate").splitlines() if line.strip()}

    assert set() == states - ALIVE_STATES - set(END_STATES)


def test_token_is_read(recorded):
    assert text.parse_token(recorded("token")) == "header.claims.signature"


@pytest.mark.parametrize(
    ("parse", "broken"),
    [
        (text.parse_squeue, "slurm_load_jobs error: Invalid job id specified\n"),
        (text.parse_sacct, "1|a|COMPLETED\n"),
        (text.parse_sacct, "1|a|ASLEEP|0:0|1|1|1|0||n\n"),
        (text.parse_sacct, "1|a|COMPLETED|0|1|1|1|0||n\n"),
        (text.parse_sacct, "1|a|COMPLETED|0:0|2026-01-01T00:00:00|1|1|0||n\n"),
        (text.parse_sacct, "1|a|COMPLETED|0:0|Unknown|1|1|0||n\n"),
        (text.parse_sacct_json, "{}"),
        (text.parse_sacct_json, "no"),
        (text.parse_dbd_queue, "Agent queue size: 3\n"),
        (text.parse_nodes, "NodeName=a CPUTot=4\n"),
        (text.parse_token, "nonsense"),
    ],
)
def test_what_does_not_fit_is_an_error(parse, broken):
    with pytest.raises(UnexpectedOutput):
        parse(broken)


def test_squeue_with_a_strange_column_is_an_error(recorded):
    with pytest.raises(UnexpectedOutput):
        text.parse_squeue(recorded("squeue-one").replace("COMPLETED", "ASLEEP   "))


def with_field(row, field, value):
    """Return a row of squeue with one field changed; AdminComment and the others stay where they
    are.
    """
    widths = dict(text._SQUEUE_FIELDS)
    names = list(widths)
    start = sum(widths[name] for name in names[: names.index(field)])
    return row[:start] + value.ljust(widths[field]) + row[start + widths[field] :]


def row_of(listing, slurm_job_id):
    return next(line for line in listing.split("\n") if line.startswith(f"{slurm_job_id} "))


@pytest.mark.parametrize(
    ("field", "value"),
    [("TimeUsed", "INVALID"), ("State", "ASLEEP"), ("SubmitTime", "N/A"), ("exit_code", "?")],
)
def test_squeue_leaves_out_a_strangers_row_that_does_not_fit(recorded, field, value):
    row = recorded("squeue-one").rstrip("\n")
    impostor = with_field(with_field(row, "admin_comment", ""), field, value)

    assert text.parse_squeue(f"{impostor}\n{row}\n") == text.parse_squeue(f"{row}\n")


@pytest.mark.parametrize("field", ["State", "SubmitTime", "exit_code", "TimeUsed"])
def test_squeue_with_a_row_of_ours_that_does_not_fit_is_an_error(recorded, field):
    row = recorded("squeue-one").rstrip("\n")

    with pytest.raises(UnexpectedOutput):
        text.parse_squeue(with_field(row, field, "INVALID"))


def test_squeue_needs_no_time_used_of_a_job_that_is_alive(recorded):
    listing = recorded("squeue-while-running")
    running = by_number(text.parse_squeue(listing))[5]

    (job,) = text.parse_squeue(
        with_field(row_of(listing, running.slurm_job_id), "TimeUsed", "INVALID")
    )

    assert job == running


def test_nothing_listed_is_no_job():
    assert text.parse_squeue("") == ()
    assert text.parse_sacct("") == ()


def test_lookups_name_the_jobs_and_bound_the_time():
    argv = text.sacct(["0xaa", "0xbb"], since=1700000000).argv

    assert "--name=0xaa,0xbb" in argv
    assert "--starttime=uts1700000000" in argv
    assert "--duplicates" in argv


def test_times_never_depend_on_the_zone_of_the_host():
    environment = text.squeue().environment

    assert {key: environment[key] for key in ("TZ", "SLURM_TIME_FORMAT")} == {
        "TZ": "UTC",
        "SLURM_TIME_FORMAT": "%s",
    }
