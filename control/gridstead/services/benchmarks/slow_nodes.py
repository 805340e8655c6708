# SPDX-License-Identifier: Apache-2.0
"""Reports slow nodes after a run, and drains them if the operator wants that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import structlog

from gridstead.domain.benchmarks.comparison import slow_nodes_of
from gridstead.domain.benchmarks.outliers import SlowNode
from gridstead.domain.benchmarks.report import MAX_REPORTS, Drain, Report
from gridstead.errors import SchedulerUnavailable
from gridstead.ports.benchmarks import BenchmarkHistory, NodeDrain

log = structlog.get_logger()

_WITHOUT_DRAIN = "check the node, see docs/howto/benchmarks.md; it still gets jobs"
_MAX_REASON_CHARS = 200  # of a drained node


class SlowNodeCheck:
    """Adds the slow nodes to a new report.

    Args:
        history: The reports of earlier runs.
        drain: Drains slow nodes. None to drain none.
    """

    def __init__(self, history: BenchmarkHistory, drain: NodeDrain | None) -> None:
        self._history = history
        self._drain = drain

    def checked(self, report: Report) -> Report:
        """Return the report with its slow nodes. Each one is logged, and drained if allowed."""
        slow_nodes = slow_nodes_of((*self._history.last_reports(MAX_REPORTS), report))
        for slow in slow_nodes:
            log.warning(
                "slow_node",
                node=slow.node,
                metric=slow.metric.name,
                value=format(slow.value, ".6g"),
                expected=format(slow.reference, ".6g"),
                unit=slow.metric.unit,
                runs=slow.runs,
                reason=slow.sentence,
                hint=_WITHOUT_DRAIN if self._drain is None else "check the node, then resume it",
            )
        drains = () if self._drain is None else tuple(_drains(slow_nodes, self._drain))
        return replace(report, slow_nodes=slow_nodes, drains=drains)


def _drains(slow_nodes: tuple[SlowNode, ...], node_drain: NodeDrain) -> Iterator[Drain]:
    """Drain each slow node once."""
    sentences = {slow.node: slow.sentence for slow in reversed(slow_nodes)}
    for node in sorted(sentences):
        reason = f"gridstead benchmarks: {sentences[node]}"[:_MAX_REASON_CHARS]
        try:
            node_drain.drain(node, reason=reason)
        except SchedulerUnavailable as error:
            log.error("slow_node_not_drained", node=node, reason=str(error))
            yield Drain(node=node, failure=str(error))
            continue
        log.warning("slow_node_drained", node=node, reason=reason)
        yield Drain(node=node)
