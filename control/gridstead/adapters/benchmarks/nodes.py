# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, from scontrol."""

from __future__ import annotations

from gridstead.adapters.slurm.nodes import parse_benchmark_nodes, show_nodes
from gridstead.adapters.slurm.runner import Runner, read_output
from gridstead.domain.benchmarks.site import Node


class ScontrolNodes:
    """Implements port ``Nodes``.

    Args:
        runner: Runs commands on a host that has Slurm's tools.
        partition: The partition of the nodes.
    """

    def __init__(self, runner: Runner, *, partition: str) -> None:
        self._runner = runner
        self._partition = partition

    def accepting(self) -> tuple[Node, ...]:
        """Return the nodes of the partition that accept jobs, sorted by name."""
        listing = read_output(self._runner, show_nodes())
        return parse_benchmark_nodes(listing, partition=self._partition)
