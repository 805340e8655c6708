# SPDX-License-Identifier: Apache-2.0
"""Ports of Slurm: as the supervisor uses it, and on the controller's host as the agent uses it.

Scheduler, Accounting and Reports are for the supervisor. The others are for the agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.slurm.hint import Hint, MungeCredential
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, LiveSample, NodeReport
from gridstead.domain.supervisor.submission import Gate, GridUser, Submission


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


class Slurm(Protocol):
    """Slurm, with the rights of SlurmUser. The caller checks what a client may do."""

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id. Errors and guarantees are as in Scheduler.

        Raises:
            AssociationUnknown: If slurmctld has no association for the user.
        """
        ...

    def find(self, slurm_job_id: int) -> Attempt | None:
        """Return the job that slurmctld lists under an id. Returns None if there is none."""
        ...

    def cancel(self, slurm_job_id: int) -> None:
        """Cancel a Slurm job of any user. Does nothing if it has ended or is unknown."""
        ...

    def extend(self, slurm_job_id: int, *, time_limit_min: int) -> None:
        """Set the time limit of a Slurm job. Does nothing if it has ended or is unknown.

        Unit: ``time_limit_min`` minutes in all.
        """
        ...

    def live(self) -> LiveSample:
        """Return the jobs that slurmctld lists now."""
        ...

    def accounting(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of these Slurm job names that were submitted since a time.

        Unit: ``since`` Unix seconds.
        """
        ...

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster from Slurm's configuration, sorted by node name."""
        ...


class Accounts(Protocol):
    """The account, directories and Slurm association that a customer's jobs need."""

    def user(self, address: str) -> GridUser | None:
        """Return the Linux account with this name. Returns None if the name does not resolve."""
        ...

    def missing_directories(self, user: GridUser) -> tuple[str, ...]:
        """Return a message about each directory that is missing or not owned by the user."""
        ...

    def associate(self, address: str) -> None:
        """Create the user's Slurm association if it is missing. Safe and cheap to repeat."""
        ...

    def reassociate(self, address: str) -> None:
        """Check the association without a cache, and let slurmctld read all associations again."""
        ...


class ReportStore(Protocol):
    """The reports of Slurm's plugins, in order. A report is durable before it can be read."""

    def add(self, hints: Iterable[Hint]) -> None:
        """Store hints under increasing sequence numbers. A hint that is stored is ignored."""
        ...

    def after(self, sequence: int, *, wait_s: float) -> tuple[NodeReport, ...]:
        """Return reports with a higher sequence number. May be empty.

        Waits up to ``wait_s`` seconds for the first report.
        """
        ...

    def forget(self, *, before: int) -> None:
        """Delete the reports that were stored before a time. Unit: Unix seconds."""
        ...


class CompletionSpool(Protocol):
    """The spool file to which the job completion plugin appends."""

    def take(self) -> tuple[str, ...]:
        """Return the oldest lines, the same until ``done`` is called. May be empty."""
        ...

    def done(self, *, rejected: Iterable[str]) -> None:
        """Remove the lines of the last ``take``. The rejected ones are saved for the operator."""
        ...


class MungeOpener(Protocol):
    """Opens MUNGE credentials."""

    def open(self, sealed: bytes) -> MungeCredential:
        """Return the content of a credential and the user that created it.

        Raises:
            NotAllowed: If it is not a valid credential of this cluster, has expired, or was opened
                before.
        """
        ...
