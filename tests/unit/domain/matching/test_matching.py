# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice of a provider for a job."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.unit.domain.builders import CREDIT, OTHER_ADDRESS, PROVIDER, job, job_id

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Affinity, Hardware, Label, Provider
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.matching import choose, fits

HARDWARE = Hardware(gpus_per_node=(0, 1), cpus_per_node=(4, 4), memory_per_node_mb=(1000, 1000))
LOW_PRICES = Prices(gpu_per_min=CREDIT, cpu_per_min=CREDIT, memory_mb_per_min=0)
HIGH_PRICES = replace(LOW_PRICES, cpu_per_min=2 * CREDIT)
PENDING_JOB = job(
    JobState.PENDING,
    provider="",
    resources=Resources(gpus=0, tasks=2, cpus_per_task=2, memory_per_cpu_mb=100),
)


def provider(address=PROVIDER, **changes):
    base = Provider(
        address=address,
        hardware=HARDWARE,
        prices=LOW_PRICES,
        labels=(Label(key="zone", value="lab"),),
        is_joined=True,
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("ineligible", "reason"),
    [
        (provider(is_joined=False), "1 banned or not accepting jobs"),
        (provider(prices=replace(LOW_PRICES, cpu_per_min=1000 * CREDIT)), "1 too expensive"),
        (provider(hardware=replace(HARDWARE, cpus_per_node=(1, 1))), "1 too small"),
    ],
)
def test_ineligible_provider_is_not_chosen(ineligible, reason):
    choice = choose(PENDING_JOB, [ineligible], refused_by=())

    assert choice.provider is None
    assert reason in choice.reason


def test_provider_that_refused_a_job_is_not_chosen_for_this_job_again():
    choice = choose(PENDING_JOB, [provider()], refused_by={PROVIDER})

    assert choice.provider is None
    assert "1 refused it" in choice.reason


def test_provider_without_claim_timeouts_is_preferred_to_a_cheaper_provider_with_timeouts():
    choice = choose(
        PENDING_JOB,
        [provider(PROVIDER), provider(OTHER_ADDRESS, prices=HIGH_PRICES)],
        refused_by=(),
        timeout_counts={PROVIDER: 1},
    )

    assert choice.provider == OTHER_ADDRESS
    assert choice.price_per_min == 8 * CREDIT


def test_provider_with_fewer_claim_timeouts_is_preferred():
    choice = choose(
        PENDING_JOB,
        [provider(PROVIDER), provider(OTHER_ADDRESS, prices=HIGH_PRICES)],
        refused_by=(),
        timeout_counts={PROVIDER: 2, OTHER_ADDRESS: 1},
    )

    assert choice.provider == OTHER_ADDRESS


def test_provider_with_claim_timeouts_is_chosen_if_no_other_provider_is_eligible():
    providers = [provider(PROVIDER), provider(OTHER_ADDRESS, is_joined=False)]

    choice = choose(PENDING_JOB, providers, refused_by=(), timeout_counts={PROVIDER: 3})

    assert choice.provider == PROVIDER


def test_excluded_provider_is_not_chosen():
    choice = choose(
        PENDING_JOB,
        [provider()],
        refused_by=(),
        timeout_counts={PROVIDER: 3},
        excluded_providers={PROVIDER: "excluded"},
    )

    assert choice.provider is None
    assert "1 excluded" in choice.reason


def test_reason_names_the_refusal_of_a_provider_that_also_has_claim_timeouts():
    choice = choose(
        PENDING_JOB,
        [provider()],
        refused_by={PROVIDER},
        timeout_counts={PROVIDER: 1},
        excluded_providers={PROVIDER: "excluded"},
    )

    assert "1 refused it" in choice.reason


def test_no_provider_is_chosen_if_no_provider_is_approved():
    choice = choose(PENDING_JOB, [], refused_by=())

    assert choice.provider is None
    assert "none approved" in choice.reason


def test_cheapest_eligible_provider_is_chosen():
    choice = choose(
        PENDING_JOB,
        [provider(PROVIDER, prices=HIGH_PRICES), provider(OTHER_ADDRESS)],
        refused_by=(),
    )

    assert (choice.provider, choice.price_per_min) == (OTHER_ADDRESS, 4 * CREDIT)


def test_jobs_are_spread_over_providers_with_equal_prices():
    """The choice depends on the job and the providers, and not on the order of the providers."""
    providers = [provider(OTHER_ADDRESS), provider(PROVIDER)]
    chosen = Counter()
    for number in range(1, 101):
        pending_job = replace(PENDING_JOB, id=job_id(number))
        choice = choose(pending_job, providers, refused_by=())
        assert choice == choose(pending_job, reversed(providers), refused_by=())
        chosen[choice.provider] += 1

    assert min(chosen[PROVIDER], chosen[OTHER_ADDRESS]) >= 30


@pytest.mark.parametrize(
    ("resources", "is_large_enough"),
    [
        (Resources(gpus=0, tasks=2, cpus_per_task=4, memory_per_cpu_mb=250), True),
        (Resources(gpus=0, tasks=1, cpus_per_task=5, memory_per_cpu_mb=1), False),
        (Resources(gpus=0, tasks=3, cpus_per_task=4, memory_per_cpu_mb=1), False),
        (Resources(gpus=0, tasks=1, cpus_per_task=4, memory_per_cpu_mb=251), False),
        (Resources(gpus=2, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1), False),
        (Resources(gpus=1, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1), True),
    ],
)
def test_each_task_must_fit_on_one_node(resources, is_large_enough):
    assert fits(resources, HARDWARE) is is_large_enough


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ({"uses": (Label(key="zone", value="lab"),)}, PROVIDER),
        ({"uses": (Label(key="zone", value="other"),)}, None),
        ({"affinity": (Affinity(key="zone", operator="in", value="la"),)}, PROVIDER),
        ({"affinity": (Affinity(key="gflops", operator=">", value="1"),)}, None),
    ],
)
def test_provider_is_chosen_only_if_it_has_the_labels_that_a_job_requires(changes, chosen):
    assert choose(replace(PENDING_JOB, **changes), [provider()], refused_by=()).provider == chosen
