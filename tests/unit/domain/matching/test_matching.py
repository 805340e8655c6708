# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice of a provider for a job."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import CREDIT, OTHER_ADDRESS, PROVIDER, job

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Affinity, Hardware, Label, Provider
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.matching import choose, fits, satisfies

HARDWARE = Hardware(gpus_per_node=(0, 1), cpus_per_node=(4, 4), memory_per_node_mb=(1000, 1000))
CHEAP = Prices(gpu_per_min=CREDIT, cpu_per_min=CREDIT, memory_mb_per_min=0)
EXPENSIVE = replace(CHEAP, cpu_per_min=2 * CREDIT)
PENDING = job(
    JobState.PENDING,
    provider="",
    resources=Resources(gpus=0, tasks=2, cpus_per_task=2, memory_per_cpu_mb=100),
)


def provider(address=PROVIDER, **changes):
    base = Provider(
        address=address,
        hardware=HARDWARE,
        prices=CHEAP,
        labels=(Label(key="zone", value="lab"),),
        is_joined=True,
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("ineligible", "reason"),
    [
        (provider(is_joined=False), "1 banned or not accepting jobs"),
        (provider(prices=replace(CHEAP, cpu_per_min=1000 * CREDIT)), "1 too expensive"),
        (provider(hardware=replace(HARDWARE, cpus_per_node=(1, 1))), "1 too small"),
    ],
)
def test_ineligible_provider_is_not_chosen(ineligible, reason):
    choice = choose(PENDING, [ineligible], refused_by=())

    assert choice.provider is None
    assert reason in choice.reason


def test_provider_that_refused_a_job_is_not_chosen_for_this_job_again():
    choice = choose(PENDING, [provider()], refused_by={PROVIDER})

    assert choice.provider is None
    assert "1 refused it" in choice.reason


def test_provider_without_claim_timeouts_is_preferred_to_a_cheaper_provider_with_timeouts():
    choice = choose(
        PENDING,
        [provider(PROVIDER), provider(OTHER_ADDRESS, prices=EXPENSIVE)],
        refused_by=(),
        timeout_counts={PROVIDER: 1},
    )

    assert choice.provider == OTHER_ADDRESS
    assert choice.price_per_min == 8 * CREDIT


def test_provider_with_fewer_claim_timeouts_is_preferred():
    choice = choose(
        PENDING,
        [provider(PROVIDER), provider(OTHER_ADDRESS, prices=EXPENSIVE)],
        refused_by=(),
        timeout_counts={PROVIDER: 2, OTHER_ADDRESS: 1},
    )

    assert choice.provider == OTHER_ADDRESS


def test_provider_with_claim_timeouts_is_chosen_if_no_other_provider_is_eligible():
    providers = [provider(PROVIDER), provider(OTHER_ADDRESS, is_joined=False)]

    choice = choose(PENDING, providers, refused_by=(), timeout_counts={PROVIDER: 3})

    assert choice.provider == PROVIDER


def test_excluded_provider_is_not_chosen():
    choice = choose(
        PENDING,
        [provider()],
        refused_by=(),
        timeout_counts={PROVIDER: 3},
        excluded_providers={PROVIDER: "excluded"},
    )

    assert choice.provider is None
    assert "1 excluded" in choice.reason


def test_reason_names_the_refusal_of_a_provider_that_also_has_claim_timeouts():
    choice = choose(
        PENDING,
        [provider()],
        refused_by={PROVIDER},
        timeout_counts={PROVIDER: 1},
        excluded_providers={PROVIDER: "excluded"},
    )

    assert "1 refused it" in choice.reason


def test_no_provider_is_chosen_if_no_provider_is_approved():
    choice = choose(PENDING, [], refused_by=())

    assert choice.provider is None
    assert "none approved" in choice.reason


def test_cheapest_eligible_provider_is_chosen():
    choice = choose(
        PENDING, [provider(PROVIDER, prices=EXPENSIVE), provider(OTHER_ADDRESS)], refused_by=()
    )

    assert (choice.provider, choice.price_per_min) == (OTHER_ADDRESS, 4 * CREDIT)


def test_provider_with_the_lowest_address_is_chosen_if_prices_are_equal():
    choice = choose(PENDING, [provider(OTHER_ADDRESS), provider(PROVIDER)], refused_by=())

    assert choice.provider == PROVIDER


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
    ("label_value", "operator", "value", "is_satisfied"),
    [
        ("10", ">", "9", True),
        ("10", "<", "9", False),
        ("10.0", "==", "10", True),
        ("abc", "<", "abd", True),
        ("lab", "!=", "lab", False),
        ("epyc-7302", "in", "7302", True),
        ("lab", "=", "lab", True),
        ("5", "<=", "5", True),
        ("5", ">=", "6", False),
        ("lab", "??", "lab", True),  # An unknown operator means equality.
    ],
)
def test_label_is_the_left_operand_of_a_condition(label_value, operator, value, is_satisfied):
    condition = Affinity(key="k", operator=operator, value=value)

    assert satisfies(label_value, condition) is is_satisfied


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
    assert choose(replace(PENDING, **changes), [provider()], refused_by=()).provider == chosen
