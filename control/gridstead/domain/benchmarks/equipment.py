# SPDX-License-Identifier: Apache-2.0
"""What the nodes have that decides how messages between them are measured.

With RDMA (InfiniBand or RoCE), MPI sends messages through UCX. Otherwise it sends them through TCP.
The OSU micro-benchmarks are used if they are installed on all nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gridstead.domain.benchmarks.outputs.reading import Output

OSU_PROGRAMS = ("osu_latency", "osu_bw", "osu_alltoall")
OTHER_NODES = "default"  # the key of the devices of all nodes that have no key of their own
# The commands that print the states of the RDMA ports, such as "4: ACTIVE", and the programs.
COMMANDS = (
    "cat /sys/class/infiniband/*/ports/*/state 2>/dev/null || true",
    f"for program in {' '.join(OSU_PROGRAMS)}; do",
    'if command -v "$program" >/dev/null; then echo "program $program"; fi',
    "done",
)
_ACTIVE_STATE = "4: ACTIVE"
_LINE = re.compile(r"[0-7]: [A-Z_]+|program [a-z_]+")


class Ucx(StrEnum):
    """Whether MPI uses UCX."""

    AUTO = "auto"  # if all nodes have an active RDMA port
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """How MPI sends messages between nodes.

    Attributes:
        ucx: Whether it uses UCX.
        devices: The value of UCX_NET_DEVICES by the name of the node.
        transport: The value of UCX_TLS. UCX chooses the transports if it is empty.
    """

    ucx: Ucx = Ucx.AUTO
    devices: Mapping[str, str] = field(default_factory=dict)
    transport: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEquipment:
    """What one node has: an active RDMA port, and the OSU micro-benchmarks."""

    has_rdma: bool
    has_osu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What messages between all nodes are measured with.

    Attributes:
        uses_ucx: Whether MPI uses UCX.
        transport: What MPI uses and why, for people.
        has_osu: Whether the OSU micro-benchmarks are used, not mpi4py.
    """

    uses_ucx: bool = False
    transport: str = ""
    has_osu: bool = False


def parse(text: str) -> NodeEquipment:
    """Return what a node has from the output of ``COMMANDS``.

    Raises:
        UnusableOutput: If a line is neither the state of a port nor a program.
    """
    output = Output("the script", text)
    lines = output.lines() if text else []
    for line in lines:
        if not _LINE.fullmatch(line):
            raise output.error(f"{line[:80]!r} is not the state of a port")
    programs = {f"program {program}" for program in OSU_PROGRAMS}
    return NodeEquipment(has_rdma=_ACTIVE_STATE in lines, has_osu=programs.issubset(lines))


def combine(options: NetworkOptions, nodes: Mapping[str, NodeEquipment | None]) -> Equipment:
    """Return what messages between nodes are measured with.

    Args:
        options: The choice of the operator.
        nodes: What each node has by its name. None if it is not known.
    """
    uses_ucx, reason = _choose_ucx(options.ucx, nodes)
    return Equipment(
        uses_ucx=uses_ucx,
        transport=f"{'ucx' if uses_ucx else 'tcp'}: {reason}",
        has_osu=all(node is not None and node.has_osu for node in nodes.values()),
    )


def _choose_ucx(ucx: Ucx, nodes: Mapping[str, NodeEquipment | None]) -> tuple[bool, str]:
    """Return whether MPI uses UCX, and why."""
    if ucx is not Ucx.AUTO:
        return ucx is Ucx.ON, f"the setting ucx is {ucx.value}"
    for name, node in nodes.items():
        if node is None:
            return False, f"it is not known whether {name} has an active RDMA port"
        if not node.has_rdma:
            return False, f"{name} has no active RDMA port"
    return True, "all nodes have an active RDMA port"
