# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules when labels from benchmarks are published."""

import pytest

from gridstead.domain.benchmarks.publication import (
    MIN_INTERVAL_S,
    RENEWAL_S,
    differ,
    labels_to_publish,
)

GFLOPS = "compute.gflops"
SCRATCH = "storage.scratch.read.bw.mibps"


def due(published, *runs, age_s=MIN_INTERVAL_S):
    return labels_to_publish(published, runs, published_at=1000, now=1000 + age_s)


def gflops(value, **others):
    return {GFLOPS: value, **others}


def test_provider_without_labels_publishes_its_first_run():
    assert due({}) is None
    assert due({}, gflops("100.00"), age_s=0) == gflops("100.00")


def test_change_needs_two_runs_that_agree():
    old, new = gflops("100.00"), gflops("80.00")

    assert due(old) is None
    assert due(old, new) is None
    assert due(old, old, new) is None
    assert due(old, new, old) is None
    assert due(old, gflops("70.00"), new) is None
    assert due(old, gflops("78.00"), new) == new


def test_labels_change_at_most_once_a_week():
    old, new = gflops("100.00"), gflops("80.00")

    assert due(old, new, new, age_s=MIN_INTERVAL_S - 1) is None
    assert due(old, new, new, age_s=MIN_INTERVAL_S) == new


@pytest.mark.parametrize(
    ("key", "within", "beyond"),
    [
        (GFLOPS, ("95.00", "105.00"), ("94.99", "105.01")),
        ("network.p2p.latency.us", ("85.00", "115.00"), ("84.99", "115.01")),
        (SCRATCH, ("75.00", "125.00"), ("74.99", "125.01")),
        ("cpu", ("100.00",), ("100.0", "a")),
    ],
)
def test_tolerance_depends_on_the_kind_of_the_label(key, within, beyond):
    for value in within:
        assert due({key: "100.00"}, {key: value}, {key: value}) is None
    for value in beyond:
        assert due({key: "100.00"}, {key: value}, {key: value}) == {key: value}


def test_all_labels_that_two_runs_confirm_get_the_values_of_the_last_run():
    published = {GFLOPS: "100.00", SCRATCH: "500.00"}
    earlier_run = {GFLOPS: "81.00", SCRATCH: "505.00"}
    last_run = {GFLOPS: "80.00", SCRATCH: "510.00"}

    assert due(published, earlier_run, last_run) == last_run


def test_label_about_which_the_runs_do_not_agree_keeps_its_published_value():
    published = {GFLOPS: "100.00", SCRATCH: "500.00"}
    earlier_run = {GFLOPS: "80.00", SCRATCH: "900.00"}
    last_run = {GFLOPS: "80.00", SCRATCH: "300.00"}

    assert due(published, earlier_run, last_run) == {GFLOPS: "80.00", SCRATCH: "500.00"}


def test_label_is_added_or_removed_after_two_runs():
    both, only_gflops = {GFLOPS: "100.00", SCRATCH: "500.00"}, {GFLOPS: "100.00"}

    assert due(both, both, only_gflops) is None
    assert due(both, only_gflops, only_gflops) == only_gflops
    assert due(only_gflops, only_gflops, both) is None
    assert due(only_gflops, both, both) == both


def test_labels_about_the_benchmark_do_not_cause_a_change():
    published = gflops("100.00", **{"benchmark.time": "1000"})
    same = gflops("101.00", **{"benchmark.time": "2000"})
    changed = gflops("80.00", **{"benchmark.time": "2000"})

    assert due(published, same, same) is None
    assert due(published, changed, changed) == changed


def test_labels_are_published_again_after_60_days():
    published = gflops("100.00", **{"benchmark.time": "1000"})
    early = gflops("101.00", **{"benchmark.time": str(1000 + RENEWAL_S - 1)})
    late = gflops("101.00", **{"benchmark.time": str(1000 + RENEWAL_S)})

    assert due(published, early, early, age_s=2 * RENEWAL_S) is None
    assert due(published, early, late, age_s=RENEWAL_S) == late


def test_value_that_was_zero_differs_from_any_other():
    assert differ(GFLOPS, "0.00", "0.01")
    assert not differ(GFLOPS, "0.00", "0")
