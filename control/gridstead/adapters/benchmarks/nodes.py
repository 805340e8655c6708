# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, from scontrol."""

from __future__ import annotations

from gridstead.adapters.slurm import nodes
from gridstead.adapters.slurm.runner import Runner, read_output
from gridstead.domain.benchmarks.site import Node


class ScontrolNodes:
    """Implements port ``Nodes``.

    Args:
        runner: Runs commands on a host that has Slurm's tools.
        partition: The partition of the nodes.
        reservation: The reservation in which the steps run. Empty if they run outside of
            reservations.
    """

    def __init__(self, runner: Runner, *, partition: str, reservation: str = "") -> None:
        self._runner = runner
        self._partition = partition
        self._reservation = reservation

    def listed(self) -> tuple[Node, ...]:
        """Return the nodes of the partition, or those of the reservation."""
        listing = read_output(self._runner, nodes.show_nodes())
        reserved_names = self._reserved_names() if self._reservation else None
        return nodes.parse_benchmark_nodes(
            listing, partition=self._partition, reserved_names=reserved_names
        )

    def busy(self) -> frozenset[str]:
        """Return the names of the nodes of the cluster on which jobs run."""
        return nodes.parse_busy_nodes(read_output(self._runner, nodes.show_nodes()))

    def _reserved_names(self) -> list[str]:
        text = read_output(self._runner, nodes.show_reservation(self._reservation))
        node_list = nodes.parse_reservation(text)
        return read_output(self._runner, nodes.show_hostnames(node_list)).split()
