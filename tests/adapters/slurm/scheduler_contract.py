# SPDX-License-Identifier: Apache-2.0
"""The contract of port Scheduler; whoever imports these tests gives a fixture ``cluster``."""

from dataclasses import replace

import pytest

from gridstead.domain.ids import parse_job_key

SKEW_S = 2


def submit(cluster, *args, **kwargs):
    submission = cluster.submission(*args, **kwargs)
    return cluster.scheduler.submit(submission), submission.job_key


def test_submit_queues_one_attempt_that_carries_its_job_key(cluster):
    before = cluster.now()

    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")

    found = cluster.find(slurm_job_id, job_key)
    assert found.alive
    assert (found.name, found.user, found.uid) == (
        job_key.job_id.slurm_name,
        cluster.user.address,
        cluster.user.uid,
    )
    assert found.time_limit_min == 5
    assert before - SKEW_S <= found.submitted_at <= cluster.now() + SKEW_S
    cluster.scheduler.cancel(slurm_job_id, job_key=str(job_key))


def test_a_running_attempt_has_a_start_and_no_end(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")

    found = cluster.running(slurm_job_id, job_key)

    assert found.started_at >= found.submitted_at
    assert found.ended_at is None
    cluster.scheduler.cancel(slurm_job_id, job_key=str(job_key))


def test_an_attempt_that_ended_well_is_told_alike_by_both_witnesses(cluster):
    before = cluster.now() - SKEW_S
    slurm_job_id, job_key = submit(cluster, "sleep 1; exit 0")

    found = cluster.ended(slurm_job_id, job_key)
    (row,) = cluster.accounted(job_key, since=before)

    assert (found.state, found.exit_code) == ("COMPLETED", 0)
    assert found.ended_at >= found.started_at >= found.submitted_at
    assert replace(found, time_limit_min=None) == row


@pytest.mark.parametrize("code", [3, 128, 200])
def test_a_failure_keeps_its_exit_code(cluster, code):
    before = cluster.now() - SKEW_S
    slurm_job_id, job_key = submit(cluster, f"exit {code}")

    found = cluster.ended(slurm_job_id, job_key)
    (row,) = cluster.accounted(job_key, since=before)

    assert (found.state, found.exit_code) == ("FAILED", code << 8)
    assert (row.state, row.exit_code) == ("FAILED", code << 8)


def test_cancel_ends_an_attempt_by_its_job_key_only_and_may_be_repeated(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.running(slurm_job_id, job_key)

    cluster.scheduler.cancel(slurm_job_id, job_key=str(cluster.job_key()))
    assert cluster.find(slurm_job_id, job_key).alive

    cluster.scheduler.cancel(slurm_job_id, job_key=str(job_key))
    found = cluster.ended(slurm_job_id, job_key)
    cluster.scheduler.cancel(slurm_job_id, job_key=str(job_key))
    assert (found.state, found.started) == ("CANCELLED", True)


def test_cancel_of_an_unknown_attempt_is_safe(cluster):
    cluster.scheduler.cancel(60_000_000, job_key=str(cluster.job_key()))


def test_an_attempt_that_was_cancelled_in_the_queue_never_started(cluster):
    before = cluster.now() - SKEW_S
    everything = sum(cluster.scheduler.hardware().cpus_per_node)
    first, first_job_key = submit(cluster, "sleep 600; exit 0", tasks=everything)
    cluster.running(first, first_job_key)
    slurm_job_id, job_key = submit(cluster, "exit 0", tasks=everything)

    cluster.scheduler.cancel(slurm_job_id, job_key=str(job_key))

    found = cluster.ended(slurm_job_id, job_key)
    (row,) = cluster.accounted(job_key, since=before)
    assert (found.state, found.started, found.elapsed_s) == ("CANCELLED", False, 0)
    assert (row.state, row.started, row.elapsed_s) == ("CANCELLED", False, 0)
    cluster.scheduler.cancel(first, job_key=str(first_job_key))


def test_extend_raises_a_limit_by_its_job_key_only_and_never_lowers_it(cluster):
    slurm_job_id, job_key = submit(cluster, "sleep 600; exit 0")
    cluster.running(slurm_job_id, job_key)

    cluster.scheduler.extend(slurm_job_id, job_key=str(cluster.job_key()), time_limit_min=9)
    assert cluster.find(slurm_job_id, job_key).time_limit_min == 5
    cluster.scheduler.extend(slurm_job_id, job_key=str(job_key), time_limit_min=9)
    cluster.scheduler.extend(slurm_job_id, job_key=str(job_key), time_limit_min=7)
    assert cluster.find(slurm_job_id, job_key).time_limit_min == 9
    cluster.scheduler.cancel(slurm_job_id, job_key=str(job_key))


def test_extend_of_an_unknown_attempt_is_safe(cluster):
    cluster.scheduler.extend(60_000_000, job_key=str(cluster.job_key()), time_limit_min=9)


def test_two_attempts_of_one_job_are_both_accounted(cluster):
    before = cluster.now() - SKEW_S
    job_key = cluster.job_key()

    ids = set()
    for _ in range(2):
        slurm_job_id, _ = submit(cluster, "exit 0", job_key=job_key)
        cluster.ended(slurm_job_id, job_key)
        ids.add(slurm_job_id)

    assert {row.slurm_job_id for row in cluster.accounted(job_key, since=before, rows=2)} == ids


def test_accounting_of_a_name_that_never_was_is_empty(cluster):
    sample = cluster.scheduler.accounting(
        [cluster.job_key().job_id.slurm_name], since=cluster.now() - 60
    )

    assert sample.attempts == ()
    assert abs(sample.taken_at - cluster.now()) <= 5


def test_accounting_leaves_out_what_was_submitted_earlier(cluster):
    slurm_job_id, job_key = submit(cluster, "exit 0")
    found = cluster.ended(slurm_job_id, job_key)

    sample = cluster.scheduler.accounting([job_key.job_id.slurm_name], since=found.submitted_at + 1)

    assert sample.attempts == ()


def test_the_gate_is_open_for_a_user_that_is_all_there(cluster):
    gate = cluster.scheduler.gate(cluster.user.address)

    assert gate.open
    assert gate.user == cluster.user


def test_hardware_has_one_entry_per_node(cluster):
    hardware = cluster.scheduler.hardware()

    assert len(hardware.gpus_per_node) == len(hardware.memory_per_node_mb) == hardware.nodes > 0
    assert min(hardware.cpus_per_node) > 0
    assert min(hardware.memory_per_node_mb) > 0


def test_every_listed_job_key_is_the_text_it_came_from(cluster):
    slurm_job_id, job_key = submit(cluster, "exit 0")

    assert parse_job_key(str(cluster.find(slurm_job_id, job_key).job_key)) == job_key
    cluster.ended(slurm_job_id, job_key)
