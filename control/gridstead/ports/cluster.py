# SPDX-License-Identifier: Apache-2.0
"""Ports of the cluster, as the supervisor uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.supervisor.submission import Gate, Submission


class Scheduler(Protocol):
    """slurmctld. Only jobs of wallet users can be submitted and changed."""

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id.

        Raises:
            SubmitRejected: If Slurm refused the job. Nothing was queued.
            SchedulerUnavailable: If it is not known whether the job was queued. The caller must
                search for the job before it submits again.
        """
        ...

    def cancel(self, slurm_job_id: int, *, job_key: JobKey) -> None:
        """Cancel a Slurm job if its AdminComment is this job key.

        Does nothing if the AdminComment is different, or if the Slurm job has ended or is unknown.
        Safe to repeat.
        """
        ...

    def extend(self, slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> None:
        """Raise the time limit of a Slurm job if its AdminComment is this job key.

        Unit: ``time_limit_min`` minutes in all. Safe to repeat.
        """
        ...

    def live(self) -> LiveSample:
        """Return the jobs that slurmctld lists now."""
        ...

    def gate(self, address: str) -> Gate:
        """Return whether jobs of this customer can run on the cluster.

        Creates the Slurm association if it is the only thing that is missing.
        """
        ...

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster from Slurm's configuration, sorted by node name."""
        ...


class Accounting(Protocol):
    """slurmdbd, which knows how jobs ended."""

    def accounting(self, job_ids: Iterable[JobId], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of these jobs that were submitted since a time.

        The records are those of the Slurm job names, which are the job numbers. So records of other
        chains may be among them; their job keys differ.

        Unit: ``since`` Unix seconds.
        """
        ...


class Reports(Protocol):
    """The reports of Slurm's plugins. A report is only a hint."""

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return the next reports with a higher sequence number. Not always all of them.

        Waits up to ``wait_s`` seconds for the first report.
        Shape: sorted by sequence number. Empty only if there is no such report.
        """
        ...
