# SPDX-License-Identifier: Apache-2.0
"""Tests of the comparison of nodes across reports."""

from dataclasses import replace

from tests.fakes.benchmarks import LATENCY, report

from gridstead.domain.benchmarks.comparison import classes_of, slow_nodes_of
from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Node

QUIET = {"n1": "100", "n2": "101"}
SLOW = {"n1": "100", "n2": "50"}
PART = Selection(nodes=("n2",))


def history(*speeds, **changes):
    """Return reports of runs with these speeds, the oldest first."""
    return [report(1_000 * number, speeds=each, **changes) for number, each in enumerate(speeds, 1)]


def names(reports):
    return [slow.node for slow in slow_nodes_of(reports)]


def node(name, *, cores=4, memory_mib=16_000, gpus=0):
    return Node(name=name, cores=cores, memory_mib=memory_mib, gpus=gpus)


def test_a_node_of_a_small_class_is_slow_after_two_runs():
    assert names(history(QUIET, QUIET, SLOW)) == []

    (slow,) = slow_nodes_of(history(QUIET, QUIET, SLOW, SLOW))

    assert (slow.node, slow.metric.name, slow.runs) == ("n2", "compute", 2)


def test_a_node_is_slow_until_it_is_as_fast_as_before():
    reports = history(QUIET, SLOW, SLOW)
    for number in (4, 5, 6):
        reports[-1] = replace(reports[-1], slow_nodes=slow_nodes_of(reports))
        assert names(reports) == ["n2"]
        reports.append(report(1_000 * number, speeds=SLOW))

    assert names([*reports, *history(QUIET)]) == []


def test_a_node_of_a_large_class_is_slow_after_one_run():
    speeds = {f"n{number}": str(100 + number) for number in range(6)} | {"n6": "50"}

    (slow,) = slow_nodes_of(history(speeds))

    assert (slow.node, slow.runs) == ("n6", 1)


def test_a_first_run_without_earlier_ones_names_no_node_of_a_small_class():
    assert names(history(SLOW)) == []


def test_nodes_with_other_hardware_are_not_compared():
    speeds = {f"n{number}": str(100 + number) for number in range(6)} | {"n6": "50"}
    (newest,) = history(speeds)
    hardware = tuple(
        replace(each, cores=2) if each.name == "n6" else each for each in newest.hardware
    )

    assert names([replace(newest, hardware=hardware)]) == []


def test_both_nodes_of_the_only_pair_are_named_for_a_slow_network():
    quiet, slow = {"n1": "50", "n2": "50"}, {"n1": "90", "n2": "90"}

    assert names(history(quiet, quiet, slow, metric=LATENCY)) == []
    assert names(history(quiet, quiet, slow, slow, metric=LATENCY)) == ["n1", "n2"]


def test_the_network_of_three_nodes_is_compared_with_the_best_node():
    quiet, slow = dict.fromkeys(("n1", "n2", "n3"), "50"), dict.fromkeys(("n1", "n2", "n3"), "90")

    assert names(history(quiet, quiet, slow, slow, metric=LATENCY)) == []
    one_slow = {**quiet, "n3": "90"}
    assert names(history(quiet, quiet, one_slow, one_slow, metric=LATENCY)) == ["n3"]


def test_values_before_a_change_of_the_hardware_are_not_compared():
    reports = history(QUIET, QUIET, SLOW, SLOW)
    larger = tuple(replace(each, cores=64) for each in reports[0].hardware)
    earlier = [replace(each, hardware=larger) for each in reports[:2]]

    assert names([*earlier, *reports[2:]]) == []


def test_early_reports_without_the_hardware_are_compared():
    earlier = history(QUIET, QUIET, hardware=False)

    assert names([*earlier, *history(SLOW, SLOW)]) == ["n2"]


def test_runs_of_another_suite_are_not_compared():
    earlier = history(QUIET, QUIET, suite="gridstead-1-full")

    assert names([*earlier, *history(SLOW, SLOW)]) == []


def test_a_run_of_a_part_of_the_site_does_not_change_the_result_of_whole_runs():
    part = history({"n2": "101"}, partial=PART)

    assert names([*history(QUIET, QUIET, SLOW), *part, *history(SLOW)]) == ["n2"]


def test_a_run_of_a_part_of_the_site_is_compared_with_whole_runs():
    part = history({"n2": "50"}, partial=PART)

    assert names([*history(QUIET, QUIET, SLOW), *part]) == ["n2"]
    assert names([*history(QUIET, QUIET, QUIET), *part]) == []


def test_a_metric_that_a_class_does_not_have_is_skipped():
    (newest,) = history(QUIET)

    assert names([replace(newest, hardware=(*newest.hardware, node("gpu1", cores=64)))]) == []


def test_equal_nodes_have_as_many_cores_and_gpus_and_almost_the_same_memory():
    a, b = node("a"), node("b", memory_mib=16_790)
    c, d = node("c", cores=8), node("d", memory_mib=16_810)

    e = node("e", gpus=4)

    assert classes_of([e, c, d, b, a]) == ((a, b), (d,), (e,), (c,))
    assert classes_of([]) == ()
