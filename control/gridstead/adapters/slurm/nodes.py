# SPDX-License-Identifier: Apache-2.0
"""The nodes of the cluster, from ``scontrol show nodes``. The rules of ``commands.py`` apply."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
_NODE_PARTITIONS = re.compile(r"\bPartitions=(\S+) ")
# A node accepts jobs if its state, for example IDLE+PLANNED, has no other parts than these.
_ACCEPTING_STATES = frozenset(
    {
        "IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM",
        "POWERED_DOWN", "POWERING_UP",
    }
)  # fmt: skip
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


def parse_benchmark_nodes(text: str, *, partition: str) -> tuple[Node, ...]:
    """Return the nodes of a partition that accept jobs, sorted by name."""
    nodes = []
    for line in text.splitlines():
        name, (_, cpus, memory_mb) = _parse_node(line)
        allocation, threads = _NODE_ALLOCATION.match(line), _NODE_THREADS.search(line)
        if allocation is None or threads is None:
            raise UnexpectedOutput("scontrol show nodes", line)
        partitions = _NODE_PARTITIONS.search(line)
        is_in_partition = partitions is not None and partition in partitions[1].split(",")
        if is_in_partition and _ACCEPTING_STATES.issuperset(allocation[3].split("+")):
            cores = max(1, cpus // int(threads[1]))
            nodes.append(Node(name=name, cores=cores, memory_mib=memory_mb))
    return tuple(sorted(nodes, key=lambda node: node.name))


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
