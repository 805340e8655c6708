# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from tests.unit.domain.builders import CREDIT, OTHER, US, job

from gridstead.domain.billing import Prices, Resources
from gridstead.domain.job import Affinity, Hardware, Label, Provider
from gridstead.domain.lifecycle import JobState
from gridstead.domain.matching import choose, fits, holds

HARDWARE = Hardware(gpus_per_node=(0, 1), cpus_per_node=(4, 4), memory_per_node_mb=(1000, 1000))
CHEAP = Prices(gpu_per_min=CREDIT, cpu_per_min=CREDIT, memory_mb_per_min=0)
DEAR = replace(CHEAP, cpu_per_min=2 * CREDIT)
PENDING = job(
    JobState.PENDING,
    provider="",
    resources=Resources(gpus=0, tasks=2, cpus_per_task=2, memory_per_cpu_mb=100),
)


def provider(address=US, **changes):
    base = Provider(
        address=address,
        hardware=HARDWARE,
        prices=CHEAP,
        labels=(Label(key="zone", value="lab"),),
        joined=True,
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (provider(joined=False), "1 not approved"),
        (provider(prices=replace(CHEAP, cpu_per_min=1000 * CREDIT)), "1 too expensive"),
        (provider(hardware=replace(HARDWARE, cpus_per_node=(1, 1))), "1 too small"),
    ],
)
def test_an_ineligible_provider_is_not_chosen_and_the_reason_is_told(asked, reason):
    choice = choose(PENDING, [asked], refused_by=())

    assert choice.provider is None
    assert reason in choice.reason


def test_a_provider_that_refused_the_job_does_not_get_it_again():
    choice = choose(PENDING, [provider()], refused_by={US})

    assert (choice.provider, "1 refused it" in choice.reason) == (None, True)


def test_a_provider_that_let_the_job_lie_comes_after_a_dearer_one():
    choice = choose(
        PENDING, [provider(US), provider(OTHER, prices=DEAR)], refused_by=(), claim_timeouts={US: 1}
    )

    assert (choice.provider, choice.price_per_min) == (OTHER, 8 * CREDIT)


def test_the_one_that_let_it_lie_less_often_comes_first():
    choice = choose(
        PENDING,
        [provider(US), provider(OTHER, prices=DEAR)],
        refused_by=(),
        claim_timeouts={US: 2, OTHER: 1},
    )

    assert choice.provider == OTHER


def test_a_provider_that_let_the_job_lie_gets_it_again_if_nobody_else_can_take_it():
    asked = [provider(US), provider(OTHER, joined=False)]

    assert choose(PENDING, asked, refused_by=(), claim_timeouts={US: 3}).provider == US


def test_a_provider_that_rests_is_told():
    choice = choose(PENDING, [provider()], refused_by=(), claim_timeouts={US: 3}, resting={US})

    assert (choice.provider, "1 did not claim it and will be asked again" in choice.reason) == (
        None,
        True,
    )


def test_a_refusal_counts_more_than_a_match_that_lay():
    choice = choose(PENDING, [provider()], refused_by={US}, claim_timeouts={US: 1}, resting={US})

    assert "1 refused it" in choice.reason


def test_a_job_waits_when_nobody_is_there():
    assert "none is registered" in choose(PENDING, [], refused_by=()).reason


def test_the_cheapest_eligible_provider_gets_the_job():
    choice = choose(PENDING, [provider(US, prices=DEAR), provider(OTHER)], refused_by=())

    assert (choice.provider, choice.price_per_min) == (OTHER, 4 * CREDIT)


def test_among_equals_the_lowest_address_gets_the_job():
    assert choose(PENDING, [provider(OTHER), provider(US)], refused_by=()).provider == US


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (Resources(gpus=0, tasks=2, cpus_per_task=4, memory_per_cpu_mb=250), True),
        (Resources(gpus=0, tasks=1, cpus_per_task=5, memory_per_cpu_mb=1), False),
        (Resources(gpus=0, tasks=3, cpus_per_task=4, memory_per_cpu_mb=1), False),
        (Resources(gpus=0, tasks=1, cpus_per_task=4, memory_per_cpu_mb=251), False),
        (Resources(gpus=2, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1), False),
        (Resources(gpus=1, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1), True),
    ],
)
def test_a_task_stays_on_one_node(asked, answer):
    assert fits(asked, HARDWARE) is answer


@pytest.mark.parametrize(
    ("value", "operator", "wanted", "answer"),
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
        ("lab", "??", "lab", True),
    ],
)
def test_the_label_is_the_left_side_of_a_condition(value, operator, wanted, answer):
    assert holds(value, Affinity(key="k", operator=operator, value=wanted)) is answer


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ({"uses": (Label(key="zone", value="lab"),)}, US),
        ({"uses": (Label(key="zone", value="other"),)}, None),
        ({"affinity": (Affinity(key="zone", operator="in", value="la"),)}, US),
        ({"affinity": (Affinity(key="gflops", operator=">", value="1"),)}, None),
    ],
)
def test_a_job_goes_only_where_its_labels_hold(changes, chosen):
    assert choose(replace(PENDING, **changes), [provider()], refused_by=()).provider == chosen
