#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check how well slow nodes are found, on 1,000 seeded synthetic clusters.

Every cluster is one class of equal nodes. Its values are normally distributed around a value of the
class, with the standard deviation in ``METRICS``. Some nodes are 20 % slower: in classes of 5 or
more nodes in all runs, and in smaller classes in the last two of six runs, because only there a
node has a history.

The exit code is 1 if more than 1 % of the healthy nodes are named in at least one metric, or if
less than 95 % of the slow nodes in classes of 5 or more are named in at least one metric.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "control"))

from gridstead.domain.benchmarks.metrics import Kind, Metric  # noqa: E402
from gridstead.domain.benchmarks.outliers import MIN_NODES_OF_Z_SCORE, slow_nodes  # noqa: E402

CLUSTERS = 1000
RUNS = 6
SLOW_RUNS_OF_SMALL_CLASSES = 2
SLOWER = 1.25  # times a node needs, if it has 80 % of the speed
MAX_FALSE = 0.01
MIN_FOUND = 0.95
# The metrics, with the standard deviation of their values in parts of the mean.
METRICS = {
    Metric(name="HPL", unit="Gflop/s", kind=Kind.COMPUTE): 0.01,
    Metric(name="STREAM", unit="GB/s", kind=Kind.COMPUTE): 0.015,
    Metric(name="ping-pong latency", unit="us", kind=Kind.NETWORK, is_time=True): 0.03,
    Metric(name="disk", unit="MiB/s", kind=Kind.STORAGE): 0.06,
}
ANY = "any"
CLASSES = ("1", "2 to 4", "5 to 9", "10 or more")


def class_of(nodes: int) -> str:
    """Return the name of the size of a class."""
    if nodes >= 10:
        return CLASSES[3]
    if nodes >= MIN_NODES_OF_Z_SCORE:
        return CLASSES[2]
    return CLASSES[1] if nodes > 1 else CLASSES[0]


class Tally:
    """Counts nodes by their class and the metric in which they are named."""

    def __init__(self) -> None:
        self.healthy: Counter[tuple[str, str]] = Counter()
        self.false: Counter[tuple[str, str]] = Counter()
        self.slow: Counter[tuple[str, str]] = Counter()
        self.found: Counter[tuple[str, str]] = Counter()

    def add(self, row: tuple[str, str], named: set[str], slow: set[str], nodes: set[str]) -> None:
        """Add the nodes of a cluster that are named in a metric, and those that are slow."""
        self.healthy[row] += len(nodes - slow)
        self.false[row] += len(named - slow)
        self.slow[row] += len(slow)
        self.found[row] += len(named & slow)


def runs_of(metric, deviation, source, *, slow, nodes):
    """Return the values of a metric in all runs of a cluster."""
    runs = []
    is_small = len(nodes) < MIN_NODES_OF_Z_SCORE
    for number in range(RUNS):
        is_slow_run = not is_small or number >= RUNS - SLOW_RUNS_OF_SMALL_CLASSES
        values = {}
        for node in nodes:
            value = 1000 * max(0.1, source.gauss(1, deviation))
            if node in slow and is_slow_run:
                value = value * SLOWER if metric.is_time else value / SLOWER
            values[node] = Decimal(round(value, 3)).quantize(Decimal("0.001"))
        runs.append(values)
    return runs


def judge(seed: int, tally: Tally) -> None:
    """Judge the nodes of one cluster in all metrics."""
    source = random.Random(seed)
    smallest, largest = source.choice([(1, 4), (5, 9), (10, 64)])
    count = source.randint(smallest, largest)
    nodes = [f"n{number}" for number in range(count)]
    slow = set(source.sample(nodes, source.randint(0, max(1, count // 8))))
    row = class_of(count)
    named_by_any: set[str] = set()
    for metric, deviation in METRICS.items():
        runs = runs_of(metric, deviation, source, slow=slow, nodes=nodes)
        named = {slow_node.node for slow_node in slow_nodes(metric, runs)}
        tally.add((row, metric.name), named, slow, set(nodes))
        named_by_any |= named
    tally.add((row, ANY), named_by_any, slow, set(nodes))


def share(named, counted, keys):
    """Return the share of named nodes among the counted nodes of some classes and metrics."""
    return sum(named[key] for key in keys) / max(1, sum(counted[key] for key in keys))


def print_row(row, name, tally):
    """Print the figures of a class in a metric."""
    key = (row, name)
    false = share(tally.false, tally.healthy, [key])
    detected = share(tally.found, tally.slow, [key])
    print(f"{row:12}{name:20}{tally.healthy[key]:8}{false:8.2%}{tally.slow[key]:7}{detected:8.1%}")


def main() -> int:
    """Print the figures. Return 1 if a required figure is missed."""
    tally = Tally()
    for seed in range(CLUSTERS):
        judge(seed, tally)
    print(f"{'nodes':12}{'metric':20}{'healthy':>8}{'false':>8}{'slow':>7}{'found':>8}")
    for row in CLASSES:
        for name in (*(metric.name for metric in METRICS), ANY):
            print_row(row, name, tally)
    false = share(tally.false, tally.healthy, [(row, ANY) for row in CLASSES])
    detected = share(tally.found, tally.slow, [(row, ANY) for row in CLASSES[2:]])
    print(f"healthy nodes that are named: {false:.2%}, at most {MAX_FALSE:.0%}")
    print(f"slow nodes found in classes of 5 or more: {detected:.1%}, at least {MIN_FOUND:.0%}")
    return int(false > MAX_FALSE or detected < MIN_FOUND)


if __name__ == "__main__":
    sys.exit(main())
