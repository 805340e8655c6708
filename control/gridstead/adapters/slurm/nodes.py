# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, from ``scontrol show nodes``. The rules of ``commands.py`` apply."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gridstead.adapters.slurm import commands
from gridstead.adapters.slurm.runner import Command
from gridstead.domain.benchmarks.site import Node
from gridstead.domain.jobs.job import Hardware
from gridstead.errors import UnexpectedOutput

# One line of `scontrol --oneliner show nodes`, and its field CfgTRES: cpu=8,mem=16000M,gres/gpu=2.
_NODE_LINE = re.compile(
    r"NodeName=(\S+) .*?\bCPUEfctv=(\d+) .*?\bRealMemory=(\d+) .*?\bCfgTRES=(\S*)"
)
_NODE_ALLOCATION = re.compile(
    r".*?\bCPUAlloc=(\d+) .*?\bAllocMem=(\d+) .*?\bState=(\S+) .*?\bAllocTRES=(\S*)"
)
_NODE_THREADS = re.compile(r"\bThreadsPerCore=(\d+) ")
_NODE_REASON = re.compile(r"\bReason=(.*?)(?: \[\S+@\S+\]| *$)")  # then who set it and when
_RESERVATION_NODES = re.compile(r"\bNodes=(\S+) ")
_NODE_PARTITIONS = re.compile(r"\bPartitions=(\S+) ")
# A node accepts jobs if its state, for example IDLE+PLANNED, has no other parts than these.
_ACCEPTING_STATES = frozenset(
    {
        "IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM",
        "POWERED_DOWN", "POWERING_UP",
    }
)  # fmt: skip
_RESERVED_STATES = frozenset({"RESERVED", "MAINTENANCE"})  # accept jobs of their reservation
_TRES_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")

_NodeResources = tuple[int, int, int]  # GPUs, CPUs, memory in MB


def show_nodes() -> Command:
    """Render the command that lists the nodes of the cluster."""
    return commands.slurm_command("scontrol", "--oneliner", "show", "nodes")


def parse_nodes(text: str) -> Hardware:
    """Return the resources of the nodes, sorted by node name."""
    return _to_hardware(map(_parse_node, text.splitlines()))


def parse_free_nodes(text: str) -> Hardware:
    """Return the free resources of the nodes that accept jobs, sorted by node name."""
    free_nodes: list[tuple[str, _NodeResources]] = []
    for line in text.splitlines():
        name, (gpus, cpus, memory_mb) = _parse_node(line)
        match = _NODE_ALLOCATION.match(line)
        if match is None:
            raise UnexpectedOutput("scontrol show nodes", line)
        used_cpus, used_memory_mb, state, tres = match.groups()
        if _ACCEPTING_STATES.issuperset(state.split("+")):
            free = (
                max(0, gpus - _tres_gpus(tres)),
                max(0, cpus - int(used_cpus)),
                max(0, memory_mb - int(used_memory_mb)),
            )
            free_nodes.append((name, free))
    return _to_hardware(free_nodes)


def parse_benchmark_nodes(
    text: str, *, partition: str, reserved_names: Collection[str] | None = None
) -> tuple[Node, ...]:
    """Return the nodes of a partition, sorted by name.

    Args:
        text: The list of nodes.
        partition: The partition.
        reserved_names: The nodes of the reservation in which the jobs run. Only these are returned.
            None if the jobs run outside of reservations.
    """
    accepting_states = _ACCEPTING_STATES
    if reserved_names is not None:
        accepting_states |= _RESERVED_STATES
    nodes = []
    for line in text.splitlines():
        node = _parse_benchmark_node(line, accepting_states=accepting_states)
        partitions = _NODE_PARTITIONS.search(line)
        is_in_partition = partitions is not None and partition in partitions[1].split(",")
        is_selected = reserved_names is None or node.name in reserved_names
        if is_in_partition and is_selected:
            nodes.append(node)
    return tuple(sorted(nodes, key=lambda node: node.name))


def _parse_benchmark_node(line: str, *, accepting_states: Collection[str]) -> Node:
    name, (gpus, cpus, memory_mb) = _parse_node(line)
    allocation, threads = _NODE_ALLOCATION.match(line), _NODE_THREADS.search(line)
    if allocation is None or threads is None:
        raise UnexpectedOutput("scontrol show nodes", line)
    state = allocation[3]
    unavailable = ""
    if not set(state.split("+")).issubset(accepting_states):
        reason = _NODE_REASON.search(line)
        unavailable = f"its state is {state}" + (f" ({reason[1]})" if reason else "")
    return Node(
        name=name,
        cores=max(1, cpus // int(threads[1])),
        memory_mib=memory_mb,
        gpus=gpus,
        unavailable=unavailable,
    )


def parse_busy_nodes(text: str) -> frozenset[str]:
    """Return the names of the nodes on which jobs run, in all partitions."""
    names = set()
    for line in text.splitlines():
        allocation = _NODE_ALLOCATION.match(line)
        if allocation is None:
            raise UnexpectedOutput("scontrol show nodes", line)
        if int(allocation[1]) > 0:
            names.add(_parse_node(line)[0])
    return frozenset(names)


def show_reservation(name: str) -> Command:
    """Render the command that shows a reservation."""
    return commands.slurm_command("scontrol", "--oneliner", "show", f"reservation={name}")


def parse_reservation(text: str) -> str:
    """Return the nodes of a reservation as Slurm prints them, such as ``compute[1-3]``."""
    nodes = _RESERVATION_NODES.search(text)
    if nodes is None:
        raise UnexpectedOutput("scontrol show reservation", text)
    return nodes[1]


def show_hostnames(nodes: str) -> Command:
    """Render the command that prints one line for each node of such a list."""
    return commands.slurm_command("scontrol", "show", "hostnames", nodes)


def _parse_node(line: str) -> tuple[str, _NodeResources]:
    """Return the name and the resources of a node."""
    match = _NODE_LINE.match(line)
    if match is None:
        raise UnexpectedOutput("scontrol show nodes", line)
    name, cpus, memory_mb, tres = match.groups()
    return name, (_tres_gpus(tres), int(cpus), int(memory_mb))


def _tres_gpus(tres: str) -> int:
    match = _TRES_GPUS.search(tres)
    return int(match[1]) if match else 0


def _to_hardware(nodes: Iterable[tuple[str, _NodeResources]]) -> Hardware:
    """Return nodes, sorted by name."""
    rows = [resources for _, resources in sorted(nodes)]
    return Hardware(
        gpus_per_node=tuple(gpus for gpus, _, _ in rows),
        cpus_per_node=tuple(cpus for _, cpus, _ in rows),
        memory_per_node_mb=tuple(memory for _, _, memory in rows),
    )
