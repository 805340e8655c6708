# SPDX-License-Identifier: Apache-2.0
"""Tests of the reasons why pending jobs wait, in one line of text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.domain.builders import CREDIT, OTHER_ADDRESS, PROVIDER, T0, job, job_id

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Affinity, Hardware, Label, Provider
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.cluster import Cluster
from gridstead.domain.matching.comparison import Comparison
from gridstead.domain.matching.forecast import PlacedJob
from gridstead.domain.matching.policies import BALANCED
from gridstead.domain.matching.reasons import REFUSED, ExpectedStart

HARDWARE = Hardware(gpus_per_node=(0, 1), cpus_per_node=(4, 4), memory_per_node_mb=(1000, 1000))
PRICES = Prices(gpu_per_min=CREDIT, cpu_per_min=CREDIT, memory_mb_per_min=0)
WHOLE_CLUSTER = Resources(gpus=0, tasks=2, cpus_per_task=4, memory_per_cpu_mb=100)
JOB = job(JobState.PENDING, provider="", resources=WHOLE_CLUSTER)


def cluster(address=PROVIDER, **changes):
    provider = Provider(
        address=address,
        hardware=HARDWARE,
        prices=PRICES,
        labels=(Label(key="zone", value="lab"),),
        is_joined=True,
    )
    return Cluster(replace(provider, **changes))


def full_cluster(address=PROVIDER):
    """Return a cluster with a job that leaves room for one task of JOB."""
    occupied_cluster = cluster(address)
    occupied_cluster.set_job(
        PlacedJob(
            job_id=job_id(9),
            resources=replace(WHOLE_CLUSTER, tasks=1),
            matched_block=1,
            started_at=0,
            paid_s=60,
        )
    )
    return occupied_cluster


def reason(*clusters, pending_job=JOB, excluded=(), expected_start=None):
    """Return the reason in one line."""
    comparison = Comparison(clusters, policy=BALANCED, now=T0)
    return comparison.reason(
        pending_job, excluded_providers=dict(excluded), expected_start=expected_start
    ).text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"is_joined": False}, "1 removed, banned or not accepting jobs"),
        ({"prices": replace(PRICES, cpu_per_min=1000 * CREDIT)}, "1 too expensive"),
        ({"hardware": replace(HARDWARE, cpus_per_node=(4, 3))}, "1 too small"),
        ({"hardware": replace(HARDWARE, memory_per_node_mb=(1000, 399))}, "1 too small"),
        ({"labels": ()}, "1 without the required labels"),
    ],
)
def test_reason_names_why_a_provider_can_never_run_the_job(changes, expected):
    labelled_job = replace(JOB, uses=(Label(key="zone", value="lab"),))

    text = reason(cluster(**changes), pending_job=labelled_job)

    assert text == f"no provider can run it: {expected}"


def test_reason_names_an_unmet_condition():
    conditional_job = replace(JOB, affinity=(Affinity(key="gflops", operator=">", value="1"),))

    assert "1 without the required labels" in reason(cluster(), pending_job=conditional_job)


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("price.per-min", "<", "8"),
        ("queue.wait.s", "<=", "59"),
        ("deadline.unix", "<=", str(T0 + 600)),
        ("policy", "=", "dearest"),
        ("benchmark.age.h", "<", "24"),
    ],
)
def test_reason_names_the_reserved_key_of_a_condition(key, operator, value):
    """The job costs 8 credits per minute, and the provider has room in a minute."""
    conditional_job = replace(
        JOB, affinity=(Affinity(key=key, operator=operator, value=value),), escrow=80 * CREDIT
    )

    text = reason(full_cluster(), pending_job=conditional_job)

    assert text == f"no provider can run it: 1 excluded by {key}"


@pytest.mark.parametrize(
    ("key", "value"),
    [("price.per-min", "8"), ("queue.wait.s", "60"), ("deadline.unix", str(T0 + 660))],
)
def test_satisfied_condition_excludes_no_provider(key, value):
    conditional_job = replace(
        JOB, affinity=(Affinity(key=key, operator="<=", value=value),), escrow=80 * CREDIT
    )

    assert reason(full_cluster(), pending_job=conditional_job) == "waits for a provider: 1 full"


def test_reason_says_that_no_provider_is_approved():
    assert reason() == "no provider can run it: none approved"


def test_providers_with_the_same_reason_are_counted():
    text = reason(cluster(is_joined=False), cluster(OTHER_ADDRESS, is_joined=False))

    assert text == "no provider can run it: 2 removed, banned or not accepting jobs"


def test_reason_names_exclusions():
    assert reason(cluster(), excluded={PROVIDER: "excluded"}.items()) == (
        "waits for a provider: 1 excluded"
    )


def test_refusal_is_named_even_if_the_provider_is_too_expensive():
    dear_cluster = cluster(prices=replace(PRICES, cpu_per_min=1000 * CREDIT))

    assert "1 refused it" in reason(dear_cluster, excluded={PROVIDER: REFUSED}.items())


def test_reason_counts_the_providers_that_are_full():
    text = reason(full_cluster(), cluster(OTHER_ADDRESS, is_joined=False))

    assert text == "waits for a provider: 1 removed, banned or not accepting jobs, 1 full"


def test_reason_counts_the_providers_with_room():
    assert reason(cluster()) == "waits for a provider: 1 with room, but not for this job yet"


def test_reason_gives_the_time_of_the_reservation():
    expected_start = ExpectedStart(provider=PROVIDER, start_at=1_700_000_000, last_move=None)

    text = reason(full_cluster(), expected_start=expected_start)

    assert text == "waits for a provider: 1 full; expected to start by 2023-11-14 22:13 UTC"
