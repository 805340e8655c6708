# SPDX-License-Identifier: Apache-2.0
"""Tests of the conditions with reserved keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.jobs.billing import MAX_PAID_MINUTES, WEI_PER_CREDIT
from gridstead.domain.jobs.job import Affinity, Label
from gridstead.domain.labels.reserved import RESERVED_KEYS
from gridstead.domain.matching.conditions import (
    NO_CONDITIONS,
    OPERATORS,
    Conditions,
    problem_of,
    read_conditions,
)
from gridstead.domain.matching.labels import satisfies_all
from gridstead.domain.matching.policies import CHEAPEST, SOONEST, paid_seconds


def condition(key, operator, value):
    return Affinity(key=key, operator=operator, value=value)


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("reputation.success", "<", "0.9"),
        ("reputation.success", ">=", "1.1"),
        # These operators are not permitted.
        ("price.per-min", ">", "1"),
        ("price.per-min", "==", "1"),
        ("queue.wait.s", "in", "1"),
        ("deadline.unix", "??", "1"),
        ("benchmark.age.h", ">=", "24"),
        ("policy", "!=", "soonest"),
        # These values are not permitted.
        ("price.per-min", "<", "1e3"),
        ("price.per-min", "<", "nan"),
        ("queue.wait.s", "<", "-1"),
        ("deadline.unix", "<", "tomorrow"),
        ("policy", "=", "dearest"),
    ],
)
def test_condition_that_no_provider_can_satisfy_is_noted(key, operator, value):
    assert read_conditions([condition(key, operator, value)]) == Conditions(impossible_key=key)


@pytest.mark.parametrize(
    ("operator", "value", "max_price"),
    [
        ("<=", "0.5", WEI_PER_CREDIT // 2),
        ("<", "0.5", WEI_PER_CREDIT // 2 - 1),
        ("<=", "0.000000000000000001", 1),
        # A float cannot represent this number.
        ("<=", "123456789012345678.123456789012345678", 123456789012345678123456789012345678),
        ("<", "123456789012345678.123456789012345678", 123456789012345678123456789012345677),
    ],
)
def test_price_limit_is_exact(operator, value, max_price):
    conditions = read_conditions([condition("price.per-min", operator, value)])

    assert conditions == Conditions(max_price=max_price)


@pytest.mark.parametrize(
    ("operator", "value", "limit"),
    [("<", "600", 599), ("<=", "600", 600), ("<", "2.5", 2), ("<=", "2.5", 2), ("<=", "0", 0)],
)
def test_limits_on_time_are_whole_seconds(operator, value, limit):
    wait = condition("queue.wait.s", operator, value)
    deadline = condition("deadline.unix", operator, value)

    assert read_conditions([wait, deadline]) == Conditions(max_wait_s=limit, latest_end=limit)


@pytest.mark.parametrize(
    ("operator", "value", "min_success"),
    [
        (">=", "0.98", 980_000),
        (">", "0.98", 980_001),
        (">=", "0.9800001", 980_001),
        (">", "0.9800001", 980_001),
        (">=", "1", 1_000_000),
        (">", "1", 1_000_001),
    ],
)
def test_lowest_reputation_is_in_millionths(operator, value, min_success):
    conditions = read_conditions([condition("reputation.success", operator, value)])

    assert conditions == Conditions(min_success=min_success)


@pytest.mark.parametrize(
    ("operator", "value", "max_age_h"),
    [("<", "168", 167), ("<=", "168", 168), ("<=", "0.5", 0), ("<", "0.5", 0), ("<", "0", -1)],
)
def test_highest_age_of_benchmarks_is_in_whole_hours(operator, value, max_age_h):
    conditions = read_conditions([condition("benchmark.age.h", operator, value)])

    assert conditions == Conditions(max_age_h=max_age_h)


def test_strictest_of_several_limits_applies():
    limits = [condition("queue.wait.s", "<=", value) for value in ("20", "10", "30")]

    assert read_conditions(limits).max_wait_s == 10

    limits = [condition("reputation.success", ">=", value) for value in ("0.2", "0.3", "0.1")]
    assert read_conditions(limits).min_success == 300_000


@pytest.mark.parametrize("operator", ["=", "=="])
def test_job_may_request_a_policy(operator):
    assert read_conditions([condition("policy", operator, "soonest")]).policy == SOONEST


def test_same_policy_may_be_requested_twice():
    assert read_conditions([condition("policy", "=", "cheapest")] * 2).policy == CHEAPEST


def test_two_different_policies_are_impossible():
    policies = [condition("policy", "=", name) for name in ("soonest", "cheapest")]

    assert read_conditions(policies).impossible_key == "policy"


def test_other_conditions_are_about_labels():
    on_label = condition("compute.gflops", ">", "1")

    assert read_conditions([on_label]) == Conditions(on_labels=(on_label,))
    assert not read_conditions([on_label]).limits_start


def test_labels_with_reserved_keys_are_ignored():
    label = Label(key="policy", value="soonest")

    assert not satisfies_all([label], uses=[label], affinity=[])


@pytest.mark.parametrize(
    ("key", "operator", "value", "part"),
    [
        ("price.per-min", ">", "1", "price.per-min permits only the operators < and <="),
        ("policy", "in", "soonest", "policy permits only the operators = and =="),
        ("policy", "=", "dear", "policy must be cheapest, balanced or soonest"),
        ("queue.wait.s", "<", "10m", "queue.wait.s must be a number"),
        ("reputation.success", ">=", "98", "reputation.success must be at most 1"),
    ],
)
def test_problem_names_the_key_and_what_is_permitted(key, operator, value, part):
    assert part in problem_of(condition(key, operator, value))


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("price.per-min", "<=", "2.5"),
        ("reputation.success", ">=", "0.98"),
        ("reputation.success", ">", "1"),
        ("policy", "==", "balanced"),
    ],
)
def test_valid_condition_has_no_problem(key, operator, value):
    assert problem_of(condition(key, operator, value)) is None


def test_each_reserved_key_has_operators():
    assert OPERATORS.keys() == RESERVED_KEYS


def test_start_is_limited_by_the_wait_and_by_the_deadline():
    wait = Conditions(max_wait_s=60)
    deadline = Conditions(latest_end=1500)
    both = Conditions(max_wait_s=60, latest_end=1500)

    assert wait.latest_start(paid_s=300, now=1000) == 1060
    assert deadline.latest_start(paid_s=300, now=1000) == 1200
    assert both.latest_start(paid_s=300, now=1000) == 1060
    assert both.latest_start(paid_s=460, now=1000) == 1040


@given(
    escrow=st.integers(0, 10**6),
    time_left_s=st.integers(-2, 10**4),
    price=st.integers(0, 10**6),
)
def test_lowest_price_is_that_whose_paid_time_ends_by_the_deadline(escrow, time_left_s, price):
    min_price = Conditions(latest_end=1000 + time_left_s).min_price(escrow, now=1000)

    is_suitable = paid_seconds(escrow, price) <= time_left_s
    if price <= escrow:  # otherwise the job is too expensive
        assert is_suitable is (price >= min_price)


def test_free_provider_can_meet_only_a_deadline_after_ten_years():
    time_left_s = 60 * MAX_PAID_MINUTES

    assert Conditions(latest_end=time_left_s).min_price(5, now=0) == 0
    assert Conditions(latest_end=time_left_s - 1).min_price(5, now=0) == 1


def test_without_a_deadline_each_price_is_suitable():
    assert NO_CONDITIONS.min_price(5, now=0) == 0
