# SPDX-License-Identifier: Apache-2.0
"""Places jobs on the nodes of a provider.

The chain does not record on which nodes a job runs. So the meta-scheduler places the jobs itself,
and the result is an estimate:

- The tasks of a job are placed on the nodes with the fewest free CPUs that have room for a task,
  and among those on the nodes with the least free memory. So large nodes stay free for large tasks.
- A task runs on one node. The GPUs of a job may be on any nodes, so only their sum is counted.
- A job stays on its nodes until it ends.

Nodes with equal free resources form a group, so the search does not look at each node.
"""

from __future__ import annotations

from bisect import insort
from typing import Self

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware

# The nodes of a job: (the index of the node, how many tasks run on it).
Placement = tuple[tuple[int, int], ...]
_Free = tuple[int, int]  # free CPUs, free memory in MB


class Nodes:
    """The free resources of a provider's nodes. At first, everything is free.

    Args:
        hardware: The nodes.

    Attributes:
        free_cpus: The free CPUs of all nodes.
        free_gpus: The free GPUs of all nodes.
    """

    __slots__ = ("_free", "_groups", "free_cpus", "free_gpus")

    def __init__(self, hardware: Hardware) -> None:
        free = list(zip(hardware.cpus_per_node, hardware.memory_per_node_mb, strict=True))
        self._set_free(free, free_gpus=sum(hardware.gpus_per_node))

    def _set_free(self, free: list[_Free], *, free_gpus: int) -> None:
        self._free = free
        self.free_gpus = free_gpus
        self.free_cpus = sum(cpus for cpus, _ in free)
        # The indices of the nodes with equal free resources, in ascending order. No group contains
        # the nodes without a free CPU, because no task can use them.
        self._groups: dict[_Free, list[int]] = {}
        for node, free_on_node in enumerate(free):
            if free_on_node[0]:
                self._groups.setdefault(free_on_node, []).append(node)

    def copy(self) -> Self:
        """Return an independent copy."""
        copy = object.__new__(type(self))
        copy._free = self._free.copy()
        copy._groups = {free: nodes.copy() for free, nodes in self._groups.items()}
        copy.free_cpus = self.free_cpus
        copy.free_gpus = self.free_gpus
        return copy

    def minimum(self, other: Self) -> Self:
        """Return nodes with the smaller of the free resources. Both must have the same nodes."""
        free = []
        for (cpus, memory_mb), (other_cpus, other_memory_mb) in zip(
            self._free, other._free, strict=True
        ):
            free.append((min(cpus, other_cpus), min(memory_mb, other_memory_mb)))
        nodes = object.__new__(type(self))
        nodes._set_free(free, free_gpus=min(self.free_gpus, other.free_gpus))
        return nodes

    def has_room(self, resources: Resources) -> bool:
        """Return whether all tasks of a job can be placed at once."""
        cpus = resources.cpus_per_task
        memory_mb = cpus * resources.memory_per_cpu_mb
        missing_tasks = resources.tasks
        if resources.gpus > self.free_gpus or not 0 < missing_tasks * cpus <= self.free_cpus:
            return False
        if memory_mb <= 0:
            return False
        for (free_cpus, free_memory_mb), nodes in self._groups.items():
            tasks_per_node = free_cpus // cpus
            if tasks_per_node * memory_mb > free_memory_mb:
                tasks_per_node = free_memory_mb // memory_mb
            missing_tasks -= len(nodes) * tasks_per_node
            if missing_tasks <= 0:
                return True
        return False

    def find(self, resources: Resources) -> Placement | None:
        """Return where a job would be placed. None if there is no room for it."""
        cpus = resources.cpus_per_task
        memory_mb = cpus * resources.memory_per_cpu_mb
        missing_tasks = resources.tasks
        is_valid = missing_tasks > 0 and memory_mb > 0
        if not is_valid or resources.gpus > self.free_gpus:
            return None
        placement: list[tuple[int, int]] = []
        for free in sorted(free for free in self._groups if free >= (cpus, memory_mb)):
            tasks_per_node = _tasks_per_node(free, resources)
            if not tasks_per_node:
                continue
            for node in self._groups[free]:
                tasks = min(tasks_per_node, missing_tasks)
                placement.append((node, tasks))
                missing_tasks -= tasks
                if not missing_tasks:
                    return tuple(placement)
        return None

    def use(self, resources: Resources, placement: Placement) -> None:
        """Place a job."""
        self._change(resources, placement, sign=-1)

    def release(self, resources: Resources, placement: Placement) -> None:
        """Remove a job."""
        self._change(resources, placement, sign=1)

    def largest_node(self) -> tuple[int, int]:
        """Return the most free CPUs and the most free memory (MB) of any node.

        The two values may belong to different nodes. Only nodes with a free CPU count.
        """
        cpus = [free_cpus for free_cpus, _ in self._groups]
        memory = [free_memory_mb for _, free_memory_mb in self._groups]
        return max(cpus, default=0), max(memory, default=0)

    def task_places(self, resources: Resources) -> int:
        """Return how many tasks of a job can be placed at once, regardless of GPUs."""
        if resources.cpus_per_task <= 0 or resources.memory_per_cpu_mb <= 0:
            return 0
        places = 0
        for free, nodes in self._groups.items():
            places += len(nodes) * _tasks_per_node(free, resources)
        return places

    def _change(self, resources: Resources, placement: Placement, *, sign: int) -> None:
        self.free_gpus += sign * resources.gpus
        self.free_cpus += sign * resources.cpus
        for node, tasks in placement:
            cpus = sign * tasks * resources.cpus_per_task
            free = self._free[node]
            new_free = (free[0] + cpus, free[1] + cpus * resources.memory_per_cpu_mb)
            self._free[node] = new_free
            if free[0]:
                group = self._groups[free]
                group.remove(node)
                if not group:
                    del self._groups[free]
            if new_free[0]:
                insort(self._groups.setdefault(new_free, []), node)


def _tasks_per_node(free: _Free, resources: Resources) -> int:
    free_cpus, free_memory_mb = free
    memory_per_task_mb = resources.cpus_per_task * resources.memory_per_cpu_mb
    return min(free_cpus // resources.cpus_per_task, free_memory_mb // memory_per_task_mb)
