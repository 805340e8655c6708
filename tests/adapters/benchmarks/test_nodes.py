# SPDX-License-Identifier: Apache-2.0
"""Tests of the nodes on which the steps run."""

from pathlib import Path

import pytest

from gridstead.adapters.benchmarks.nodes import ScontrolNodes
from gridstead.adapters.slurm.runner import CommandResult
from gridstead.domain.benchmarks.site import Node

RECORDED = Path(__file__).parents[1] / "slurm/recorded"
RESERVATION = "ReservationName=repaired Nodes=compute[1-2] NodeCnt=2 Flags=MAINT\n"


class FakeScontrol:
    """Prints recorded lists of nodes."""

    def __init__(self, listing):
        self.outputs = {
            ("show", "nodes"): listing,
            ("show", "reservation=repaired"): RESERVATION,
            ("hostnames", "compute[1-2]"): "compute1\ncompute2\n",
        }

    def run(self, command):
        return CommandResult(exit_status=0, stdout=self.outputs[command.argv[-2:]], stderr="")


@pytest.fixture(params=sorted(path.name for path in RECORDED.iterdir() if path.is_dir()))
def scontrol(request):
    listing = (RECORDED / request.param / "nodes.txt").read_text()
    return FakeScontrol(listing + listing.replace("compute1", "compute3"))


def test_all_nodes_of_the_partition_are_listed(scontrol):
    nodes = ScontrolNodes(scontrol, partition="main").listed()

    assert [node.name for node in nodes] == ["compute1", "compute3"]


def test_only_the_nodes_of_the_reservation_are_listed(scontrol):
    nodes = ScontrolNodes(scontrol, partition="main", reservation="repaired").listed()

    assert nodes == (Node(name="compute1", cores=64, memory_mib=4000),)


def test_the_nodes_of_all_partitions_can_be_busy(scontrol):
    assert ScontrolNodes(scontrol, partition="other").busy() == {"compute1", "compute3"}
