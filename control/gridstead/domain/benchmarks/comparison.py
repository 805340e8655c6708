# SPDX-License-Identifier: Apache-2.0
"""Compares the nodes of the newest report with equal nodes, and with their own earlier values.

Rule 1: nodes are equal if they have as many cores and GPUs, and their memory differs by at most
    5 %. The memory that equal machines report differs a little.
Rule 2: only runs with the same suite are compared, because another version or mode may measure
    something else.
Rule 3: runs of a part of the site are compared only with a run that is also of a part.
Rule 4: on a site of two nodes, each node's values of the network are compared only with its own
    earlier values. Both nodes have the values of the only pair.
Rule 5: the values with which a node was found slow are not its usual values. So a node is slow in
    each run until it is as fast as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from gridstead.domain.benchmarks.metrics import PERCENT, Kind, Metric
from gridstead.domain.benchmarks.outliers import CONFIRMING_RUNS, Run, SlowNode, slow_nodes
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.site import Node

MAX_MEMORY_DIFFERENCE_PERCENT = 5
NODES_OF_ONE_PAIR = 2


def slow_nodes_of(reports: Sequence[Report]) -> tuple[SlowNode, ...]:
    """Return the slow nodes of the newest report, sorted by name and metric.

    Args:
        reports: The oldest first. At least one. The newest report has the hardware of its nodes.
    """
    newest = reports[-1]
    compared = [report for report in reports[:-1] if _is_comparable(report, newest)] + [newest]
    runs = _without_slow_values([_values(each, newest.hardware) for each in compared], compared)
    slow: list[SlowNode] = []
    for metric in runs[-1]:
        for names in _compared_names(newest.hardware, metric):
            class_runs = [_of_nodes(names, values.get(metric, {})) for values in runs]
            if class_runs[-1]:
                slow += slow_nodes(metric, [run for run in class_runs if run])
    return tuple(sorted(slow, key=lambda each: (each.node, each.metric.name)))


def _compared_names(nodes: Collection[Node], metric: Metric) -> Iterator[set[str]]:
    """Yield the names of the nodes that are compared with each other in a metric."""
    has_one_pair = metric.kind is Kind.NETWORK and len(nodes) == NODES_OF_ONE_PAIR
    for node_class in classes_of(nodes):
        names = {node.name for node in node_class}
        if has_one_pair:
            yield from ({name} for name in names)
        else:
            yield names


def classes_of(nodes: Iterable[Node]) -> tuple[tuple[Node, ...], ...]:
    """Return the classes of equal nodes."""
    classes: list[list[Node]] = []
    for node in sorted(nodes, key=lambda node: (node.cores, node.gpus, node.memory_mib)):
        if classes and are_equal(classes[-1][0], node):
            classes[-1].append(node)
        else:
            classes.append([node])
    return tuple(map(tuple, classes))


def are_equal(first: Node, second: Node) -> bool:
    """Return whether two nodes have equal hardware."""
    difference_mib = abs(first.memory_mib - second.memory_mib)
    smaller_mib = min(first.memory_mib, second.memory_mib)
    is_memory_equal = difference_mib * PERCENT <= MAX_MEMORY_DIFFERENCE_PERCENT * smaller_mib
    has_equal_counts = (first.cores, first.gpus) == (second.cores, second.gpus)
    return has_equal_counts and is_memory_equal


def _is_comparable(report: Report, newest: Report) -> bool:
    if report.suite != newest.suite:
        return False
    return report.partial is None or newest.partial is not None


def _values(report: Report, hardware: Iterable[Node]) -> Mapping[Metric, Run]:
    """Return the values of each metric on the nodes that had the same hardware in the report."""
    hardware_then = {node.name: node for node in report.hardware}
    # Early reports do not have the hardware.
    equal_nodes = [node for node in hardware if are_equal(hardware_then.get(node.name, node), node)]
    names = {node.name for node in equal_nodes}
    values: dict[Metric, dict[str, Decimal]] = {}
    for measurement in report.findings.measurements:
        if measurement.node in names:
            values.setdefault(measurement.metric, {})[measurement.node] = measurement.value
    return values


def _without_slow_values(
    runs: Sequence[Mapping[Metric, Run]], reports: Sequence[Report]
) -> list[Mapping[Metric, Run]]:
    """Return the runs without earlier values with which nodes were found slow.

    A finding in a small class is about two runs: that of its report, and the one before. The last
    two runs are complete, because they are judged.
    """
    slow_values: set[tuple[int, Metric, str]] = set()
    for index, report in enumerate(reports[:-1]):
        for slow in report.slow_nodes:
            for slow_index in range(index - slow.runs + 1, index + 1):
                slow_values.add((slow_index, slow.metric, slow.node))
    judged_from = len(runs) - CONFIRMING_RUNS
    cleaned: list[Mapping[Metric, Run]] = []
    for index, values in enumerate(runs):
        cleaned_values = {}
        for metric, run in values.items():
            cleaned_values[metric] = {
                node: value
                for node, value in run.items()
                if index >= judged_from or (index, metric, node) not in slow_values
            }
        cleaned.append(cleaned_values)
    return cleaned


def _of_nodes(names: Collection[str], run: Run) -> Run:
    return {node: value for node, value in run.items() if node in names}
