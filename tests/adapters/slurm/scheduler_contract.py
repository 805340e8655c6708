# SPDX-License-Identifier: Apache-2.0
"""Contract tests of port Scheduler. A module that imports the tests defines fixture ``cluster``.

cluster.py explains the words *attempt* and *job key*.
"""

from dataclasses import replace

import pytest

from gridstead.domain.jobs.ids import parse_job_key

CLOCK_SKEW_S = 2


def submit(cluster, *args, **kwargs):
    """Submit a job and return (Slurm job id, job key)."""
    submission = cluster.new_submission(*args, **kwargs)
    return cluster.scheduler.submit(submission), submission.job_key


def test_submit_queues_one_attempt_with_its_job_key(cluster):
    submitted_after = cluster.now()

    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")

    attempt = cluster.find(slurm_job_id, job_key)
    assert attempt.is_alive
    assert attempt.name == job_key.job_id.slurm_job_name
    assert attempt.user == cluster.user.address
    assert attempt.uid == cluster.user.uid
    assert attempt.time_limit_min == 5
    assert attempt.submitted_at >= submitted_after - CLOCK_SKEW_S
    assert attempt.submitted_at <= cluster.now() + CLOCK_SKEW_S
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)


def test_a_running_attempt_has_a_start_and_no_end(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")

    attempt = cluster.wait_until_running(slurm_job_id, job_key)

    assert attempt.started_at >= attempt.submitted_at
    assert attempt.ended_at is None
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)


def test_slurmctld_and_slurmdbd_agree_on_a_completed_attempt(cluster):
    submitted_after = cluster.now() - CLOCK_SKEW_S
    slurm_job_id, job_key = submit(cluster, "sleep 1; exit 0")

    attempt = cluster.wait_until_ended(slurm_job_id, job_key)
    (record,) = cluster.wait_for_records(job_key, since=submitted_after)

    assert attempt.state == "COMPLETED"
    assert attempt.exit_code == 0
    assert attempt.started_at >= attempt.submitted_at
    assert attempt.ended_at >= attempt.started_at
    # Records of slurmdbd contain no time limit.
    assert replace(attempt, time_limit_min=None) == record


@pytest.mark.parametrize("code", [3, 128, 200])
def test_a_failed_attempt_has_the_exit_code_of_its_script(cluster, code):
    submitted_after = cluster.now() - CLOCK_SKEW_S
    slurm_job_id, job_key = submit(cluster, f"exit {code}")

    attempt = cluster.wait_until_ended(slurm_job_id, job_key)
    (record,) = cluster.wait_for_records(job_key, since=submitted_after)

    for report in (attempt, record):
        assert report.state == "FAILED"
        assert report.exit_code == code << 8  # Slurm reports a wait status


def test_cancel_requires_the_job_key_and_may_be_repeated(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.wait_until_running(slurm_job_id, job_key)

    cluster.scheduler.cancel(slurm_job_id, job_key=cluster.new_job_key())
    assert cluster.find(slurm_job_id, job_key).is_alive

    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)
    attempt = cluster.wait_until_ended(slurm_job_id, job_key)
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)
    assert attempt.state == "CANCELLED"
    assert attempt.has_started


def test_cancel_ignores_an_unknown_attempt(cluster):
    cluster.scheduler.cancel(60_000_000, job_key=cluster.new_job_key())


def test_an_attempt_cancelled_in_the_queue_has_not_started(cluster):
    submitted_after = cluster.now() - CLOCK_SKEW_S
    # A job on all CPUs keeps the second job in the queue.
    all_cpus = sum(cluster.scheduler.hardware().cpus_per_node)
    running_id, running_job_key = submit(cluster, "sleep 600; exit 0", tasks=all_cpus)
    cluster.wait_until_running(running_id, running_job_key)
    slurm_job_id, job_key = submit(cluster, "exit 0", tasks=all_cpus)

    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)

    attempt = cluster.wait_until_ended(slurm_job_id, job_key)
    (record,) = cluster.wait_for_records(job_key, since=submitted_after)
    for report in (attempt, record):
        assert report.state == "CANCELLED"
        assert not report.has_started
        assert report.elapsed_s == 0
    cluster.scheduler.cancel(running_id, job_key=running_job_key)


def test_extend_requires_the_job_key_and_never_lowers_the_limit(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.wait_until_running(slurm_job_id, job_key)

    cluster.scheduler.extend(slurm_job_id, job_key=cluster.new_job_key(), time_limit_min=9)
    assert cluster.find(slurm_job_id, job_key).time_limit_min == 5
    cluster.scheduler.extend(slurm_job_id, job_key=job_key, time_limit_min=9)
    cluster.scheduler.extend(slurm_job_id, job_key=job_key, time_limit_min=7)
    assert cluster.find(slurm_job_id, job_key).time_limit_min == 9
    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)


def test_extend_ignores_an_unknown_attempt(cluster):
    cluster.scheduler.extend(60_000_000, job_key=cluster.new_job_key(), time_limit_min=9)


def test_slurmdbd_has_a_record_of_each_attempt_of_a_job(cluster):
    submitted_after = cluster.now() - CLOCK_SKEW_S
    job_key = cluster.new_job_key()

    submitted_ids = set()
    for _ in range(2):
        slurm_job_id, _ = submit(cluster, "exit 0", job_key=job_key)
        cluster.wait_until_ended(slurm_job_id, job_key)
        submitted_ids.add(slurm_job_id)

    records = cluster.wait_for_records(job_key, since=submitted_after, count=2)
    assert {record.slurm_job_id for record in records} == submitted_ids


def test_slurmdbd_has_no_records_of_an_unknown_job(cluster):
    sample = cluster.scheduler.list_records(
        [cluster.new_job_key().job_id], since=cluster.now() - 60
    )

    assert sample.attempts == ()
    assert abs(sample.taken_at - cluster.now()) <= 5


def test_records_of_earlier_submissions_are_not_returned(cluster):
    slurm_job_id, job_key = submit(cluster, "exit 0")
    attempt = cluster.wait_until_ended(slurm_job_id, job_key)

    sample = cluster.scheduler.list_records([job_key.job_id], since=attempt.submitted_at + 1)

    assert sample.attempts == ()


def test_the_gate_is_open_for_a_complete_user(cluster):
    gate = cluster.scheduler.check_gate(cluster.user.address)

    assert gate.is_open
    assert gate.user == cluster.user


def test_hardware_has_one_entry_per_node(cluster):
    hardware = cluster.scheduler.hardware()

    assert hardware.node_count > 0
    assert len(hardware.gpus_per_node) == hardware.node_count
    assert len(hardware.memory_per_node_mb) == hardware.node_count
    assert min(hardware.cpus_per_node) > 0
    assert min(hardware.memory_per_node_mb) > 0


def test_resources_of_a_running_job_are_not_free(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.wait_until_running(slurm_job_id, job_key)

    free_cpus = sum(cluster.scheduler.free_nodes().cpus_per_node)

    cluster.scheduler.cancel(slurm_job_id, job_key=job_key)
    assert free_cpus < sum(cluster.scheduler.hardware().cpus_per_node)


def test_the_job_key_of_a_listed_attempt_can_be_parsed_from_its_text(cluster):
    slurm_job_id, job_key = submit(cluster, "exit 0")

    attempt = cluster.find(slurm_job_id, job_key)
    assert parse_job_key(str(attempt.job_key)) == job_key
    cluster.wait_until_ended(slurm_job_id, job_key)
