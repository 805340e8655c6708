# SPDX-License-Identifier: Apache-2.0
"""The simulated Slurm cluster of a provider.

Unlike the meta-scheduler's estimate, it knows on which nodes each job runs. It schedules as Slurm's
backfill scheduler does: jobs start in the order of their submission. If the first job has no room,
the nodes on which it can start soonest are kept for it. A later job may use these nodes only if its
time limit ends before that start.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware

_NO_NODES: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Running:
    """A running job: its resources, the number of tasks on each node, and its time limit."""

    resources: Resources
    tasks_by_node: tuple[tuple[int, int], ...]
    limit_at: int


class Machines:
    """The nodes of a simulated provider, and its queue.

    Args:
        hardware: The nodes.
    """

    def __init__(self, hardware: Hardware) -> None:
        self._free_cpus = list(hardware.cpus_per_node)
        self._free_memory_mb = list(hardware.memory_per_node_mb)
        self._free_gpus = sum(hardware.gpus_per_node)
        self._queue: list[tuple[int, Resources, int]] = []
        self._running: dict[int, _Running] = {}

    def submit(self, job: int, resources: Resources, *, limit_s: int) -> None:
        """Put a job into the queue.

        Args:
            job: The number of the job.
            resources: Its resources.
            limit_s: Its time limit, seconds.
        """
        self._queue.append((job, resources, limit_s))

    def start_jobs(self, now: int) -> list[int]:
        """Start the jobs that have room, and return them."""
        started_jobs = []
        waiting_jobs: list[tuple[int, Resources, int]] = []
        without_room: set[Resources] = set()
        kept_until = 0
        kept_nodes: Collection[int] = _NO_NODES
        for job, resources, limit_s in self._queue:
            tasks_by_node = None
            if resources not in without_room:
                is_short = now + limit_s <= kept_until
                tasks_by_node = self._find_nodes(resources, _NO_NODES if is_short else kept_nodes)
                if tasks_by_node is None and (is_short or not waiting_jobs):
                    without_room.add(resources)
            if tasks_by_node is not None:
                self._use(resources, tasks_by_node, sign=-1)
                self._running[job] = _Running(resources, tasks_by_node, now + limit_s)
                started_jobs.append(job)
                continue
            if not waiting_jobs:
                kept_until, kept_nodes = self._start_of(resources, now)
            waiting_jobs.append((job, resources, limit_s))
        self._queue = waiting_jobs
        return started_jobs

    def end(self, job: int) -> None:
        """Remove a running job."""
        running_job = self._running.pop(job)
        self._use(running_job.resources, running_job.tasks_by_node, sign=1)

    def _start_of(self, resources: Resources, now: int) -> tuple[int, Collection[int]]:
        """Return when a job has room if every job runs until its limit, and on which nodes."""
        saved_state = (self._free_cpus.copy(), self._free_memory_mb.copy(), self._free_gpus)
        result: tuple[int, Collection[int]] = (now, _NO_NODES)
        for running_job in sorted(self._running.values(), key=lambda job: job.limit_at):
            self._use(running_job.resources, running_job.tasks_by_node, sign=1)
            tasks_by_node = self._find_nodes(resources, _NO_NODES)
            if tasks_by_node is not None:
                nodes = {node for node, _ in tasks_by_node}
                result = (max(now, running_job.limit_at), nodes)
                break
        self._free_cpus, self._free_memory_mb, self._free_gpus = saved_state
        return result

    def _find_nodes(
        self, resources: Resources, kept_nodes: Collection[int]
    ) -> tuple[tuple[int, int], ...] | None:
        """Return the number of tasks on each node, or None if there is no room."""
        if resources.gpus > self._free_gpus:
            return None
        cpus = resources.cpus_per_task
        memory_mb = cpus * resources.memory_per_cpu_mb
        options = []
        for node, free_cpus in enumerate(self._free_cpus):
            possible_tasks = min(free_cpus // cpus, self._free_memory_mb[node] // memory_mb)
            if possible_tasks and node not in kept_nodes:
                options.append((free_cpus, node, possible_tasks))
        missing_tasks = resources.tasks
        tasks_by_node = []
        for _, node, possible_tasks in sorted(options):
            tasks = min(possible_tasks, missing_tasks)
            tasks_by_node.append((node, tasks))
            missing_tasks -= tasks
            if not missing_tasks:
                return tuple(tasks_by_node)
        return None

    def _use(
        self, resources: Resources, tasks_by_node: tuple[tuple[int, int], ...], *, sign: int
    ) -> None:
        self._free_gpus += sign * resources.gpus
        for node, tasks in tasks_by_node:
            cpus = tasks * resources.cpus_per_task
            self._free_cpus[node] += sign * cpus
            self._free_memory_mb[node] += sign * cpus * resources.memory_per_cpu_mb
