# SPDX-License-Identifier: Apache-2.0
"""Total resources: those that steps need, and those that the job has."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.workflow.schema import JobResources


@dataclass(frozen=True, slots=True)
class ResourceTotals:
    """CPU threads, memory and GPUs over all tasks. Unit of ``mem``: MB."""

    cpus: int = 0
    mem: int = 0
    gpus: int = 0

    def __add__(self, other: ResourceTotals) -> ResourceTotals:
        """Return the sum of each resource."""
        return ResourceTotals(self.cpus + other.cpus, self.mem + other.mem, self.gpus + other.gpus)

    def __sub__(self, other: ResourceTotals) -> ResourceTotals:
        """Return the difference of each resource."""
        return ResourceTotals(self.cpus - other.cpus, self.mem - other.mem, self.gpus - other.gpus)

    def times(self, number: int) -> ResourceTotals:
        """Return ``number`` times each resource."""
        return ResourceTotals(self.cpus * number, self.mem * number, self.gpus * number)

    def divided_by(self, number: int) -> ResourceTotals:
        """Return an equal share of each resource for each of ``number`` steps, rounded down."""
        return ResourceTotals(self.cpus // number, self.mem // number, self.gpus // number)

    def maximum(self, other: ResourceTotals) -> ResourceTotals:
        """Return the larger value of each resource."""
        return ResourceTotals(
            max(self.cpus, other.cpus), max(self.mem, other.mem), max(self.gpus, other.gpus)
        )

    def minimum(self, other: ResourceTotals) -> ResourceTotals:
        """Return the smaller value of each resource."""
        return ResourceTotals(
            min(self.cpus, other.cpus), min(self.mem, other.mem), min(self.gpus, other.gpus)
        )

    def fitting_count(self, needs: ResourceTotals) -> int:
        """Return how many steps with these needs fit. A step counts as at least one CPU thread."""
        counts = [self.cpus // max(needs.cpus, 1)]
        if needs.mem:
            counts.append(self.mem // needs.mem)
        if needs.gpus:
            counts.append(self.gpus // needs.gpus)
        return min(counts)


def job_totals(job: JobResources) -> ResourceTotals:
    """Return the resources of the job."""
    cpus = job.tasks * job.cpus_per_task
    return ResourceTotals(cpus, cpus * job.mem_per_cpu, job.gpus)
