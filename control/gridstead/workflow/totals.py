# SPDX-License-Identifier: Apache-2.0
"""Total resources: those that steps need, and those that the job has."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.workflow.schema import JobResources


@dataclass(frozen=True, slots=True)
class Totals:
    """CPU threads, memory and GPUs over all tasks. Unit of ``mem``: MB."""

    cpus: int = 0
    mem: int = 0
    gpus: int = 0

    def __add__(self, other: Totals) -> Totals:
        """Return the sum of each resource."""
        return Totals(self.cpus + other.cpus, self.mem + other.mem, self.gpus + other.gpus)

    def __sub__(self, other: Totals) -> Totals:
        """Return the difference of each resource."""
        return Totals(self.cpus - other.cpus, self.mem - other.mem, self.gpus - other.gpus)

    def times(self, number: int) -> Totals:
        """Return ``number`` times each resource."""
        return Totals(self.cpus * number, self.mem * number, self.gpus * number)

    def share(self, number: int) -> Totals:
        """Return an equal share of each resource for each of ``number`` steps, rounded down."""
        return Totals(self.cpus // number, self.mem // number, self.gpus // number)

    def maximum(self, other: Totals) -> Totals:
        """Return the larger value of each resource."""
        return Totals(
            max(self.cpus, other.cpus), max(self.mem, other.mem), max(self.gpus, other.gpus)
        )

    def minimum(self, other: Totals) -> Totals:
        """Return the smaller value of each resource."""
        return Totals(
            min(self.cpus, other.cpus), min(self.mem, other.mem), min(self.gpus, other.gpus)
        )

    def count(self, needs: Totals) -> int:
        """Return how many steps with these needs fit. A step counts as at least one CPU thread."""
        counts = [self.cpus // max(needs.cpus, 1)]
        if needs.mem:
            counts.append(self.mem // needs.mem)
        if needs.gpus:
            counts.append(self.gpus // needs.gpus)
        return min(counts)


def job_totals(job: JobResources) -> Totals:
    """Return the resources of the job."""
    cpus = job.tasks * job.cpus_per_task
    return Totals(cpus, cpus * job.mem_per_cpu, job.gpus)
