# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules that find slow nodes."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.outliers import slow_nodes

GFLOPS = Metric(name="HPL", unit="Gflop/s", kind=Kind.COMPUTE)
LATENCY = Metric(name="latency", unit="us", kind=Kind.NETWORK, is_time=True)
READ = Metric(name="read bandwidth", unit="MiB/s", kind=Kind.STORAGE)
SPEEDS = st.lists(st.integers(1, 10**6), min_size=1, max_size=12)


def run(*values):
    return {f"n{number}": Decimal(value) for number, value in enumerate(values, start=1)}


def names(metric, *runs):
    return [slow_node.node for slow_node in slow_nodes(metric, runs)]


def test_slow_node_of_a_large_class_is_reported_with_its_figures():
    (slow_node,) = slow_nodes(GFLOPS, [run(100, 101, 99, 100, 80)])

    assert (slow_node.node, slow_node.value, slow_node.reference) == ("n5", 80, 100)
    assert slow_node.percent_slower == 20
    assert slow_node.sentence == (
        "n5: HPL is 80 Gflop/s, 20.0 % slower than the median 100 of 5 equal nodes (robust z-score"
        " 13.5)"
    )


@pytest.mark.parametrize(
    ("values", "slow"),
    [
        ((100, 100, 100, 100, 94), ["n5"]),  # a MAD of 0 counts as 1: z-score 4.0
        ((100, 100, 100, 100, 95), []),  # z-score 3.4
        ((100, 102, 98, 100, 89.7), []),  # MAD 2: z-score 3.47
        ((100, 102, 98, 100, 89.5), ["n5"]),  # z-score 3.54
        ((100, 100.1, 99.9, 100, 95), []),  # a high z-score, but only 5 % slower
        ((100, 100.1, 99.9, 100, 94.9), ["n5"]),
        ((100, 100, 100, 100, 200), []),  # faster
    ],
)
def test_class_of_five_needs_a_z_score_and_a_distance(values, slow):
    assert names(GFLOPS, run(*values)) == slow


def test_higher_latency_is_slower():
    assert names(LATENCY, run(10, 10, 10, 10, 12)) == ["n5"]
    assert names(LATENCY, run(10, 10, 10, 10, 8)) == []


@pytest.mark.parametrize(
    ("metric", "slow_value"),
    [(GFLOPS, "89.9"), (READ, "74.9"), (LATENCY, "115.1")],
)
def test_small_class_needs_two_runs_beyond_the_margin(metric, slow_value):
    usual, slow = run(100, 100), run(100, slow_value)

    assert names(metric, usual, slow, slow) == ["n2"]
    assert names(metric, usual, slow) == []
    assert names(metric, slow, slow) == []
    assert names(metric, usual, slow, usual) == []
    assert names(metric, usual, usual, slow) == []


@pytest.mark.parametrize(("metric", "value"), [(GFLOPS, 90), (READ, 75), (LATENCY, 115)])
def test_small_class_within_the_margin_is_not_slow(metric, value):
    assert names(metric, run(100, 100), run(100, value), run(100, value)) == []
    assert names(metric, run(100), run(value), run(value)) == []


def test_node_that_was_always_slower_is_not_slow():
    assert names(GFLOPS, run(100, 80), run(100, 80), run(100, 80)) == []


def test_node_that_is_slower_like_all_others_is_not_slow():
    assert names(GFLOPS, run(100, 100), run(80, 80), run(80, 80)) == []


def test_sentence_of_a_small_class():
    (slow_node,) = slow_nodes(GFLOPS, [run(100, 90), run(100, 110), run(99, 80), run(98, 75)])

    assert slow_node.sentence == (
        "n2: HPL is 75 Gflop/s, 25.0 % slower than the median 100 of its own 2 earlier runs, and"
        " the best of 2 equal nodes has 98, in two runs"
    )


def test_single_node_is_compared_with_its_own_earlier_runs():
    (slow_node,) = slow_nodes(GFLOPS, [run(100), run(89), run(88)])

    assert slow_node.sentence == (
        "n1: HPL is 88 Gflop/s, 12.0 % slower than the median 100 of its own 1 earlier runs, in two"
        " runs"
    )
    assert names(GFLOPS, run(100), run(88), run(95)) == []


def test_node_that_was_not_in_both_runs_is_not_judged():
    assert names(GFLOPS, run(100, 100), run(100), run(100, 80)) == []


@given(SPEEDS, st.integers(1, 1000))
def test_result_does_not_depend_on_the_unit(speeds, factor):
    runs = [run(*speeds)] * 3
    scaled = [run(*(speed * factor for speed in speeds))] * 3

    assert names(GFLOPS, *runs) == names(GFLOPS, *scaled)


@given(SPEEDS)
def test_fastest_half_of_a_class_is_never_slow(speeds):
    middle = sorted(speeds)[(len(speeds) - 1) // 2]
    slow = slow_nodes(GFLOPS, [run(*speeds)] * 3)

    assert all(slow_node.value < middle for slow_node in slow)
