# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead job why`: the figures that it prints, and the jobs that it cannot explain."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fakes.definitions import job_id

from gridstead.adapters.matching import queue_view
from gridstead.adapters.matching.pending_job import PendingJob
from gridstead.cli import job as job_command
from gridstead.cli.waiting import print_explanation
from gridstead.domain.jobs.lifecycle import JobState

PROVIDER = "0x" + "11" * 20
ANSWER = {
    "job": job_id(7).slurm_job_name,
    "cause": "waits-for-provider",
    "reason": "waits for a provider: 2 full",
    "obstacles": [],
    "labels": [],
    "labels_compared": 0,
    "ahead": {"own": 3, "others": 14},
    "expected_start": None,
    "block": 1234,
    "block_time": 1_700_000_000,
}


def obstacle(code="full", *figures, reserved_for=None):
    """Return an obstacle of two providers, with the nearest miss if figures are given."""
    nearest = None
    if figures:
        quantity, needed, available = figures
        nearest = {
            "quantity": quantity,
            "needed": needed,
            "available": available,
            "provider": PROVIDER,
            "reserved_for": reserved_for,
        }
    return {"code": code, "text": f"text of {code}", "providers": 2, "nearest": nearest}


def answer(**changes):
    return PendingJob.model_validate(ANSWER | changes)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (("too-small", "gpus", 3, 2), "needs 3 GPUs; the nearest provider has 2"),
        (("full", "node-cpus", 8, 6), "needs 8 CPUs on a node; the largest node has 6 free"),
        (("full", "node-cpus", 1, 0), "needs 1 CPU on a node; the largest node has 0 free"),
        (
            ("too-small", "node-memory-mb", 65_536, 1_000),
            "needs 64 GiB on a node; the largest node has 1000 MiB",
        ),
        (("full", "tasks", 5, 4), "needs room for 5 tasks at once; the most is 4"),
        (("full", "tasks", 1, 0), "needs room for 1 task at once; the most is 0"),
        (("full", "queue-places", 1, 0), "other matched jobs wait there already"),
        (
            ("too-expensive", "escrow-wei", 14 * 10**16, 10**17),
            "costs 0.14 credits a minute at the cheapest; its escrow is 0.1",
        ),
        (
            ("policy", "price-per-min-wei", 10**17, 14 * 10**16),
            "costs 0.14 credits a minute there, and 0.1 at a provider that is full",
        ),
        (
            ("reserved", "free-s", 7_260, 59),
            "is paid for 2 h 1 min; the room is reserved for another job in 59 s",
        ),
        (("new", "disk-gb", 5, 4), "needs 5 (disk-gb); the nearest provider has 4"),
    ],
)
def test_nearest_miss_is_a_sentence_with_figures(capsys, figures, expected):
    print_explanation(7, answer(obstacles=[obstacle(*figures)]))

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "text of" in line]
    assert line.split(f"text of {figures[0]}")[1].strip() == expected


def test_reservation_names_the_job_that_has_it(capsys):
    reserved = obstacle("reserved", "free-s", 3_600, 600, reserved_for=job_id(31).slurm_job_name)

    print_explanation(7, answer(obstacles=[reserved]))

    assert "is paid for 1 h 0 min; the room is reserved for job 31 in 10 min" in (
        capsys.readouterr().out
    )


def test_label_is_printed_with_the_values_of_the_providers(capsys):
    labels = [
        {"requirement": "region=eu", "missing": 1, "other": 3, "values": ["asia", "us"]},
        {"requirement": "gflops>5", "missing": 2, "other": 0, "values": []},
    ]

    print_explanation(7, answer(obstacles=[obstacle("labels")], labels=labels, labels_compared=4))

    printed = capsys.readouterr().out
    assert (
        "needs label region=eu; 3 of 4 providers have another (asia, us), 1 of 4 have none"
        in printed
    )
    assert "needs label gflops>5; 2 of 4 have none" in printed


def test_place_and_reservation_are_printed(capsys):
    start = {
        "provider": PROVIDER,
        "start_at": 1_700_000_600,
        "last_move": {"from_at": 1_700_000_000, "to_at": 1_700_000_600, "cause": "job 5 is late"},
    }

    print_explanation(7, answer(expected_start=start))

    printed = capsys.readouterr().out
    assert "about 3 of the same customer and 14 of others" in printed
    assert f":23:20 at {PROVIDER}" in printed
    assert ":23:20: job 5 is late" in printed


def test_job_without_a_place_prints_none(capsys):
    print_explanation(7, answer(ahead=None))

    printed = capsys.readouterr().out
    assert printed.startswith("job 7: waits for a provider: 2 full\n")
    assert "ahead" not in printed


@pytest.fixture
def client(monkeypatch):
    """Replace the client: its job 7 is pending, and the queue view returns ANSWER."""
    pending_job = SimpleNamespace(id=job_id(7), state=JobState.PENDING)
    settings = SimpleNamespace(queue_url="https://queue", ca_file=Path("ca.crt"))
    client = SimpleNamespace(
        settings=settings, job=lambda _number: pending_job, pending=pending_job
    )
    monkeypatch.setattr(job_command, "open_client", lambda _config: client)
    monkeypatch.setattr(queue_view, "pending_job", lambda _url, _job_id, *, ca: answer())
    return client


def test_json_has_the_answer_of_the_queue_view(gridstead, client):
    result = gridstead("job", "why", "7", "--json")

    expected = {"number": 7, "state": "PENDING", "waits": True, "why": ANSWER}
    assert (result.code, json.loads(result.out)) == (0, expected)


def test_job_that_is_not_pending_has_its_state_and_needs_no_queue_view(gridstead, client):
    client.pending.state = JobState.RUNNING
    client.settings.queue_url = None

    result = gridstead("job", "why", "7", "--json")

    expected = {"number": 7, "state": "RUNNING", "waits": False, "why": None}
    assert (result.code, json.loads(result.out)) == (0, expected)
    assert gridstead("job", "why", "7").out.startswith("job 7 is RUNNING")


def test_missing_queue_url_is_a_config_error_that_names_the_settings(gridstead, client):
    client.settings.queue_url = None

    result = gridstead("job", "why", "7")

    assert (result.code, result.out) == (78, "")
    assert "queue_url" in result.err
    assert "[queue_view]" in result.err


def test_job_that_the_queue_view_does_not_know_can_be_asked_for_again(
    gridstead, client, monkeypatch
):
    monkeypatch.setattr(queue_view, "pending_job", lambda _url, _job_id, *, ca: None)

    result = gridstead("job", "why", "7", "--json")

    assert result.code == 75
    assert json.loads(result.err)["error"]["code"] == "queue-view-unavailable"
