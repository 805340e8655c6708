# SPDX-License-Identifier: Apache-2.0
"""Contract tests of port Scheduler. A module that imports them defines a fixture ``cluster``."""

from dataclasses import replace

import pytest

from gridstead.domain.jobs.ids import parse_job_key

SKEW_S = 2


def submit(cluster, *args, **kwargs):
    submission = cluster.submission(*args, **kwargs)
    return cluster.scheduler.submit(submission), submission.job_key


def test_submit_queues_one_attempt_with_its_job_key(cluster):
    before = cluster.now()

    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")

    attempt = cluster.find(slurm_job_id, job_key)
    assert attempt.is_alive
    assert (attempt.name, attempt.user, attempt.uid) == (
        job_key.job_id.slurm_name,
        cluster.user.address,
        cluster.user.uid,
    )
    assert attempt.time_limit_min == 5
    assert before - SKEW_S <= attempt.submitted_at <= cluster.now() + SKEW_S
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)


def test_a_running_attempt_has_a_start_and_no_end(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")

    attempt = cluster.running(slurm_job_id, job_key)

    assert attempt.started_at >= attempt.submitted_at
    assert attempt.ended_at is None
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)


def test_slurmctld_and_slurmdbd_report_a_completed_attempt_alike(cluster):
    before = cluster.now() - SKEW_S
    slurm_job_id, job_key = submit(cluster, "sleep 1; exit 0")

    attempt = cluster.ended(slurm_job_id, job_key)
    (row,) = cluster.accounted(job_key, since=before)

    assert (attempt.state, attempt.exit_code) == ("COMPLETED", 0)
    assert attempt.ended_at >= attempt.started_at >= attempt.submitted_at
    assert replace(attempt, time_limit_min=None) == row


@pytest.mark.parametrize("code", [3, 128, 200])
def test_a_failure_keeps_its_exit_code(cluster, code):
    before = cluster.now() - SKEW_S
    slurm_job_id, job_key = submit(cluster, f"exit {code}")

    attempt = cluster.ended(slurm_job_id, job_key)
    (row,) = cluster.accounted(job_key, since=before)

    assert (attempt.state, attempt.exit_code) == ("FAILED", code << 8)
    assert (row.state, row.exit_code) == ("FAILED", code << 8)


def test_cancel_needs_the_job_key_and_can_be_repeated(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.running(slurm_job_id, job_key)

    cluster.scheduler.cancel(slurm_job_id, job_key=cluster.job_key())
    assert cluster.find(slurm_job_id, job_key).is_alive

    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)
    attempt = cluster.ended(slurm_job_id, job_key)
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)
    assert (attempt.state, attempt.has_started) == ("CANCELLED", True)


def test_cancel_ignores_an_unknown_attempt(cluster):
    cluster.scheduler.cancel(60_000_000, job_key=cluster.job_key())


def test_an_attempt_cancelled_in_the_queue_never_started(cluster):
    before = cluster.now() - SKEW_S
    all_cpus = sum(cluster.scheduler.hardware().cpus_per_node)
    running_id, running_job_key = submit(cluster, "sleep 600; exit 0", tasks=all_cpus)
    cluster.running(running_id, running_job_key)
    slurm_job_id, job_key = submit(cluster, "exit 0", tasks=all_cpus)

    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)

    attempt = cluster.ended(slurm_job_id, job_key)
    (row,) = cluster.accounted(job_key, since=before)
    assert (attempt.state, attempt.has_started, attempt.elapsed_s) == ("CANCELLED", False, 0)
    assert (row.state, row.has_started, row.elapsed_s) == ("CANCELLED", False, 0)
    cluster.scheduler.cancel(running_id, job_key=running_job_key)


def test_extend_needs_the_job_key_and_never_lowers_the_limit(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.running(slurm_job_id, job_key)

    cluster.scheduler.extend(slurm_job_id, job_key=cluster.job_key(), time_limit_min=9)
    assert cluster.find(slurm_job_id, job_key).time_limit_min == 5
    cluster.scheduler.extend(slurm_job_id, job_key=job_key, time_limit_min=9)
    cluster.scheduler.extend(slurm_job_id, job_key=job_key, time_limit_min=7)
    assert cluster.find(slurm_job_id, job_key).time_limit_min == 9
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)


def test_extend_ignores_an_unknown_attempt(cluster):
    cluster.scheduler.extend(60_000_000, job_key=cluster.job_key(), time_limit_min=9)


def test_two_attempts_of_one_job_are_both_accounted(cluster):
    before = cluster.now() - SKEW_S
    job_key = cluster.job_key()

    ids = set()
    for _ in range(2):
        slurm_job_id, _ = submit(cluster, "exit 0", job_key=job_key)
        cluster.ended(slurm_job_id, job_key)
        ids.add(slurm_job_id)

    assert {row.slurm_job_id for row in cluster.accounted(job_key, since=before, rows=2)} == ids


def test_accounting_of_an_unknown_name_is_empty(cluster):
    sample = cluster.scheduler.list_records([cluster.job_key().job_id], since=cluster.now() - 60)

    assert sample.attempts == ()
    assert abs(sample.taken_at - cluster.now()) <= 5


def test_accounting_excludes_attempts_submitted_before_since(cluster):
    slurm_job_id, job_key = submit(cluster, "exit 0")
    attempt = cluster.ended(slurm_job_id, job_key)

    sample = cluster.scheduler.list_records([job_key.job_id], since=attempt.submitted_at + 1)

    assert sample.attempts == ()


def test_the_gate_is_open_for_a_complete_user(cluster):
    gate = cluster.scheduler.check_gate(cluster.user.address)

    assert gate.is_open
    assert gate.user == cluster.user


def test_hardware_has_one_entry_per_node(cluster):
    hardware = cluster.scheduler.hardware()

    assert len(hardware.gpus_per_node) == len(hardware.memory_per_node_mb) == hardware.nodes > 0
    assert min(hardware.cpus_per_node) > 0
    assert min(hardware.memory_per_node_mb) > 0


def test_a_listed_job_key_can_be_parsed_from_its_text(cluster):
    slurm_job_id, job_key = submit(cluster, "exit 0")

    assert parse_job_key(str(cluster.find(slurm_job_id, job_key).job_key)) == job_key
    cluster.ended(slurm_job_id, job_key)
