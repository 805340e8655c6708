# SPDX-License-Identifier: Apache-2.0
"""Tests of the number of jobs in a claim.

``SMALL`` needs one CPU, and ``LARGE`` needs a GPU. A cluster is given by the free CPUs of its
nodes, which have enough memory for all jobs.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    POLICY,
    PROVIDER,
    T0,
    attempt,
    controller_sample,
    job,
    journal_record,
    snapshot,
)

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.claims import HEAD_START, claim_count

SMALL = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100)
LARGE = Resources(gpus=1, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100)


def cluster(*free_cpus):
    return Hardware(
        gpus_per_node=(0,) * len(free_cpus),
        cpus_per_node=free_cpus,
        memory_per_node_mb=(1_000_000,) * len(free_cpus),
    )


def count_claims(queue, *, free=None, claimed=(), attempts=(), policy=POLICY, **changes):
    """Return the size of the claim.

    Args:
        queue: The resources of the matched jobs.
        free: The free nodes.
        claimed: The jobs that are claimed by the provider.
        attempts: The jobs that slurmctld lists.
        policy: The operator's settings.
        changes: Other values of the snapshot.
    """
    values = {
        "queues": QueueSizes(claimable=len(queue), cancelling=0, top_up=0),
        "claimable": tuple(queue),
        "free_nodes": free,
        "controller_sample": controller_sample(*attempts),
    }
    taken = snapshot(claimed, map(journal_record, claimed), **(values | changes))
    return claim_count(taken, policy)


def waiting_jobs(count, resources=SMALL, **changes):
    """Return claimed jobs that Slurm does not have yet."""
    return [job(number=number, resources=resources, **changes) for number in range(1, count + 1)]


def started_attempts(count, *, started_at, number=1000, **changes):
    """Return attempts of jobs that have ended on the chain."""
    attempts = []
    for offset in range(count):
        ended_job = job(number=number + offset)
        attempts.append(
            attempt(ended_job, slurm_job_id=number + offset, started_at=started_at, **changes)
        )
    return attempts


def test_jobs_with_room_and_a_head_start_are_claimed():
    assert count_claims([SMALL] * 40, free=cluster(6, 4)) == 10 + HEAD_START


def test_claim_is_not_larger_than_the_queue():
    assert count_claims([SMALL] * 3, free=cluster(64)) == 3


def test_claim_is_not_larger_than_the_limit():
    policy = replace(POLICY, claim_limit=5)

    assert count_claims([SMALL] * 40, free=cluster(64), policy=policy) == 5


def test_claimed_jobs_that_have_not_started_use_the_free_nodes():
    claimed = waiting_jobs(4)
    pending = [attempt(claimed[0], "PENDING")]

    count = count_claims([SMALL] * 40, free=cluster(10), claimed=claimed, attempts=pending)

    assert count == 6 + HEAD_START


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED"])
def test_claimed_jobs_that_have_started_do_not_wait(state):
    """Slurm has already subtracted their resources, or has them back."""
    claimed = waiting_jobs(4)
    attempts = [attempt(claimed_job, state, started_at=T0 - 3600) for claimed_job in claimed]

    count = count_claims([SMALL] * 40, free=cluster(10), claimed=claimed, attempts=attempts)

    assert count == 10 + HEAD_START


def test_running_job_that_slurm_lost_waits_again():
    claimed = waiting_jobs(4, state=JobState.RUNNING)

    assert count_claims([SMALL] * 40, free=cluster(4), claimed=claimed) == HEAD_START


@pytest.mark.parametrize(
    "changes",
    [{"state": JobState.FINISHED}, {"provider": "0x" + "44" * 20}],
    ids=["settled", "of another provider"],
)
def test_jobs_that_are_not_claimed_do_not_wait(changes):
    others = waiting_jobs(4, **changes)

    assert count_claims([SMALL] * 40, free=cluster(10), claimed=others) == 10 + HEAD_START


def test_records_of_replaced_and_unknown_jobs_do_not_wait():
    records = [journal_record(old_job) for old_job in waiting_jobs(4)]
    new_jobs = [job(number=1, batch_location_hash="another")]
    taken = snapshot(
        new_jobs,
        records,
        queues=QueueSizes(claimable=40, cancelling=0, top_up=0),
        claimable=(SMALL,) * 40,
        free_nodes=cluster(10),
    )

    assert claim_count(taken, POLICY) == 10 + HEAD_START


def test_full_cluster_gets_no_job_beyond_the_head_start():
    claimed = waiting_jobs(HEAD_START)

    assert count_claims([SMALL] * 40, free=cluster(0), claimed=claimed[:-1]) == 1
    assert count_claims([SMALL] * 40, free=cluster(0), claimed=claimed) == 0


def test_full_cluster_claims_again_when_nodes_become_free():
    claimed = waiting_jobs(HEAD_START)

    assert count_claims([SMALL] * 40, free=cluster(2), claimed=claimed) == 2


def test_waiting_jobs_that_fit_nowhere_do_not_block_jobs_that_fit():
    claimed = waiting_jobs(HEAD_START, LARGE)

    assert count_claims([SMALL] * 40, free=cluster(10), claimed=claimed) == 10


def test_matched_job_that_fits_nowhere_uses_the_head_start():
    queue = [LARGE, SMALL, LARGE, SMALL]
    claimed = waiting_jobs(HEAD_START - 1, LARGE)

    assert count_claims(queue, free=cluster(10)) == 4
    assert count_claims(queue, free=cluster(10), claimed=claimed) == 2


def test_head_start_grows_with_the_jobs_that_started_in_the_last_minute():
    """Jobs of seconds must not wait for the next claim."""
    recent = started_attempts(30, started_at=T0 + 1)
    earlier = started_attempts(30, started_at=T0, number=2000)
    attempts = [*recent, *earlier]  # the sample is from T0 + 60

    assert count_claims([SMALL] * 40, free=cluster(0), attempts=attempts) == 30


def test_jobs_of_other_grids_and_pending_jobs_do_not_enlarge_the_head_start():
    attempts = started_attempts(30, started_at=T0 + 30)
    foreign = []
    for each in attempts:
        job_id = replace(each.job_key.job_id, contract=PROVIDER)
        foreign.append(replace(each, job_key=replace(each.job_key, job_id=job_id)))
    pending = started_attempts(30, state="PENDING", started_at=None, number=2000)

    count = count_claims([SMALL] * 40, free=cluster(0), attempts=[*foreign, *pending])

    assert count == HEAD_START


def test_unknown_free_nodes_count_as_none():
    assert count_claims([SMALL] * 40, free=None) == HEAD_START


def test_nothing_is_claimed_while_slurmctld_does_not_answer():
    assert count_claims([SMALL] * 40, free=cluster(64), controller_sample=None) == 0


def test_entries_that_are_not_listed_need_one_cpu():
    """DeepSquare's contracts do not list the jobs of a queue. Stale entries are not listed."""
    queues = QueueSizes(claimable=40, cancelling=0, top_up=0)

    assert count_claims((), free=cluster(10), queues=queues) == 10 + HEAD_START
