# SPDX-License-Identifier: Apache-2.0
"""Finds nodes that are slower than equal nodes, or than they were before.

The rule depends on the number of nodes of equal hardware, called a class:

- 5 or more: the robust z-score of the node in the last run is above 3.5, and the node is more than
  5 % slower than the median. The robust z-score is 0.6745 times the distance to the median, divided
  by the median absolute deviation (MAD). A MAD of 0 counts as 1 % of the median.
- 2 to 4: in each of the last two runs, the node is slower by more than the margin of the metric
  than the best node, and than the median of its own runs before these two.
- 1: in each of the last two runs, the node is slower by more than the margin than the median of its
  own runs before these two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gridstead.domain.benchmarks.metrics import PERCENT, Metric
from gridstead.domain.benchmarks.outputs.reading import median

MIN_NODES_OF_Z_SCORE = 5
MAX_Z_SCORE = Decimal("3.5")
MIN_PERCENT_SLOWER = 5
_NORMAL_MAD = Decimal("0.6745")  # the MAD of the normal distribution with standard deviation 1
CONFIRMING_RUNS = 2

# The values of one run on the nodes of a class, by the names of the nodes. All are more than 0.
Run = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowNode:
    """A node that is slow in one metric.

    Attributes:
        node: Its name.
        metric: The metric.
        value: Its value in the last run.
        reference: The value that it is compared with: the median of its class in the last run, or
            the median of its own earlier runs.
        percent_slower: How much slower the value is than the reference.
        runs: In how many runs, up to the last one, the node was found slow: 1 or 2.
        sentence: The reason, for people.
    """

    node: str
    metric: Metric
    value: Decimal
    reference: Decimal
    percent_slower: Decimal
    runs: int
    sentence: str


def slow_nodes(metric: Metric, runs: Sequence[Run]) -> tuple[SlowNode, ...]:
    """Return the slow nodes of a class in one metric, sorted by name.

    Args:
        metric: The metric.
        runs: The runs on the nodes of the class, the oldest first. At least one. A node can be
            missing in a run. Only the nodes of the last run are judged.
    """
    last_run = runs[-1]
    if len(last_run) >= MIN_NODES_OF_Z_SCORE:
        judged = [_by_z_score(metric, node, last_run) for node in sorted(last_run)]
    else:
        judged = [_by_history(metric, node, runs) for node in sorted(last_run)]
    return tuple(slow_node for slow_node in judged if slow_node is not None)


def _by_z_score(metric: Metric, node: str, run: Run) -> SlowNode | None:
    value = run[node]
    middle = median(run.values())
    percent_slower = metric.percent_slower(value, middle)
    deviation = median(abs(each - middle) for each in run.values()) or middle / PERCENT
    z_score = _NORMAL_MAD * abs(value - middle) / deviation
    if percent_slower <= MIN_PERCENT_SLOWER or z_score <= MAX_Z_SCORE:
        return None
    reason = f"the median {middle:.6g} of {len(run)} equal nodes (robust z-score {z_score:.1f})"
    return _slow_node(metric, node, value, middle, reason, runs=1)


def _by_history(metric: Metric, node: str, runs: Sequence[Run]) -> SlowNode | None:
    earlier_values = [run[node] for run in runs[:-CONFIRMING_RUNS] if node in run]
    if not earlier_values:
        return None
    usual = median(earlier_values)
    is_alone = len(runs[-1]) == 1
    for run in runs[-CONFIRMING_RUNS:]:
        if node not in run:
            return None
        # A node that is alone in its class has only its own runs as references.
        references = (usual,) if is_alone else (usual, metric.best(*run.values()))
        for reference in references:
            if metric.percent_slower(run[node], reference) <= metric.kind.margin_percent:
                return None
    reason = f"the median {usual:.6g} of its own {len(earlier_values)} earlier runs"
    if not is_alone:
        best = metric.best(*runs[-1].values())
        reason += f", and the best of {len(runs[-1])} equal nodes has {best:.6g}"
    value = runs[-1][node]
    return _slow_node(metric, node, value, usual, f"{reason}, in two runs", runs=CONFIRMING_RUNS)


def _slow_node(
    metric: Metric, node: str, value: Decimal, reference: Decimal, reason: str, *, runs: int
) -> SlowNode:
    percent_slower = metric.percent_slower(value, reference)
    measured = f"{metric.name} is {value:.6g} {metric.unit}"
    return SlowNode(
        node=node,
        metric=metric,
        value=value,
        reference=reference,
        percent_slower=percent_slower,
        runs=runs,
        sentence=f"{node}: {measured}, {percent_slower:.1f} % slower than {reason}",
    )
