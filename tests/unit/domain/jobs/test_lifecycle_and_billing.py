# SPDX-License-Identifier: Apache-2.0
"""Tests of the state transitions and the cost of a job.

The state of a job is cold after the job has ended, and hot before.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.ledger.paid_time import emitted_minutes_floor

from gridstead.domain.jobs.billing import (
    MAX_CPUS,
    MAX_GPUS,
    MAX_MEMORY_MB,
    MAX_PAID_MINUTES,
    SECONDS_PER_MINUTE,
    Prices,
    Resources,
    cost_floor,
    divide_escrow,
    paid_minutes_floor,
    paid_seconds_ceil,
    paid_seconds_floor,
    price_per_minute,
    prices_per_minute,
)
from gridstead.domain.jobs.lifecycle import COLD, HOT, JobState, is_legal

CREDIT = 10**18
WEI = st.integers(0, 10**30)
SECONDS = st.integers(0, 10**9)


@pytest.mark.parametrize("state", sorted(COLD))
def test_cold_state_has_no_transitions(state):
    for next_state in JobState:
        assert not is_legal(state, next_state)


@pytest.mark.parametrize("state", list(JobState))
def test_transition_from_a_state_to_itself_is_illegal(state):
    assert not is_legal(state, state)


@pytest.mark.parametrize("state", sorted(HOT))
def test_hot_job_can_panic_and_be_cancelled(state):
    assert is_legal(state, JobState.PANICKED)
    assert is_legal(state, JobState.CANCELLED)


@pytest.mark.parametrize(
    ("previous_state", "next_state"),
    [(JobState.SCHEDULED, JobState.RUNNING), (JobState.RUNNING, JobState.FINISHED)],
)
def test_state_can_be_reached_from_exactly_one_previous_state(previous_state, next_state):
    for state in JobState:
        assert is_legal(state, next_state) is (state is previous_state)


def test_price_of_the_reference_example():
    prices = Prices(
        gpu_per_min=85 * CREDIT // 10, cpu_per_min=95 * CREDIT // 100, memory_mb_per_min=8 * 10**13
    )
    resources = Resources(gpus=1, tasks=3, cpus_per_task=2, memory_per_cpu_mb=100)

    assert price_per_minute(resources, prices) == 14_248 * 10**15
    assert prices_per_minute(resources, [prices]) == [14_248 * 10**15]


@given(escrow=WEI, seconds=SECONDS, price=WEI, fee=st.integers(0, 100))
def test_bill_divides_the_whole_escrow(escrow, seconds, price, fee):
    bill = divide_escrow(escrow=escrow, seconds=seconds, price_per_min=price, fee_percent=fee)

    assert bill.cost <= escrow
    assert bill.provider + bill.fee == bill.cost
    assert bill.cost + bill.refund == escrow


@given(seconds=SECONDS, added_seconds=SECONDS, price=WEI)
def test_longer_run_never_costs_less(seconds, added_seconds, price):
    assert cost_floor(seconds, price) <= cost_floor(seconds + added_seconds, price)


@given(escrow=WEI, price=st.integers(1, 10**30))
def test_time_that_an_escrow_pays_for_never_costs_more_than_the_escrow(escrow, price):
    assert cost_floor(paid_seconds_floor(escrow, price), price) <= escrow
    assert paid_minutes_floor(escrow, price) * price <= escrow


def test_escrow_of_a_free_job_pays_for_unlimited_time():
    assert paid_seconds_floor(5, 0) is None
    assert paid_minutes_floor(5, 0) is None


@given(escrow=WEI, price=st.integers(1, 10**30))
def test_contracts_report_at_most_ten_years_of_paid_time(escrow, price):
    expected = min(paid_minutes_floor(escrow, price), MAX_PAID_MINUTES)

    assert emitted_minutes_floor(escrow, price) == expected


@given(escrow=WEI, price=WEI)
def test_deadline_is_never_before_the_end_of_the_paid_time(escrow, price):
    emitted_s = emitted_minutes_floor(escrow, price) * SECONDS_PER_MINUTE

    paid_s = paid_seconds_ceil(escrow, price)

    assert emitted_s <= paid_s
    assert paid_s <= MAX_PAID_MINUTES * SECONDS_PER_MINUTE


def test_contracts_report_ten_years_for_a_free_job():
    assert emitted_minutes_floor(5, 0) == MAX_PAID_MINUTES
    assert paid_seconds_ceil(5, 0) == MAX_PAID_MINUTES * SECONDS_PER_MINUTE


@pytest.mark.parametrize(
    ("gpus", "tasks", "cpus_per_task", "memory_per_cpu_mb", "is_valid"),
    [
        (0, 1, 1, 1, True),
        (0, 0, 1, 1, False),
        (0, 1, 0, 1, False),
        (0, 1, 1, 0, False),
        (MAX_GPUS, 1, 1, 1, True),
        (MAX_GPUS + 1, 1, 1, 1, False),
        (0, 2, MAX_CPUS // 2, 1, True),
        (0, 2, MAX_CPUS // 2 + 1, 1, False),
        (0, 2, 2, MAX_MEMORY_MB // 4, True),
        (0, 2, 2, MAX_MEMORY_MB // 4 + 1, False),
    ],
)
def test_resources_are_valid_within_the_bounds(
    gpus, tasks, cpus_per_task, memory_per_cpu_mb, is_valid
):
    resources = Resources(
        gpus=gpus,
        tasks=tasks,
        cpus_per_task=cpus_per_task,
        memory_per_cpu_mb=memory_per_cpu_mb,
    )

    assert resources.is_valid is is_valid
