# SPDX-License-Identifier: Apache-2.0
"""The ports to Slurm.

The supervisor uses Scheduler, Accounting and Reports. The cluster agent, which runs on the
controller's host, uses the other ports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.slurm.hint import Hint, MungeCredential
from gridstead.domain.supervisor.attempt import (
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
)
from gridstead.domain.supervisor.submission import Gate, GridUser, Submission


class Scheduler(Protocol):
    """The scheduler, slurmctld. It submits and changes only jobs of wallet users."""

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id.

        Raises:
            SubmitRejected: If Slurm refused the job. Nothing was queued.
            SchedulerUnavailable: If it is unknown whether the job was queued. The caller must
                search for the job before it submits the job again.
        """
        ...

    def cancel(self, slurm_job_id: int, *, job_key: JobKey) -> None:
        """Cancel a Slurm job if its AdminComment is this job key.

        Does nothing if the AdminComment is different, or if the Slurm job has ended or is unknown.
        This operation is idempotent.
        """
        ...

    def extend(self, slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> None:
        """Raise the time limit of a Slurm job if its AdminComment is this job key.

        Args:
            slurm_job_id: The Slurm job.
            job_key: The job key that the AdminComment must have.
            time_limit_min: The new time limit, in minutes since the start of the Slurm job.

        This operation is idempotent.
        """
        ...

    def list_jobs(self) -> ControllerSample:
        """Return the jobs that slurmctld lists now."""
        ...

    def check_gate(self, address: str) -> Gate:
        """Return whether jobs of this customer can run on the cluster.

        If only the customer's Slurm association is missing, this method creates it.
        """
        ...

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster from Slurm's configuration, sorted by node name."""
        ...

    def free_nodes(self) -> Hardware:
        """Return the free resources of each node that accepts jobs, sorted by node name.

        Drained nodes and nodes that do not respond are omitted.
        """
        ...


class Accounting(Protocol):
    """The accounting database, slurmdbd. It records how jobs ended."""

    def list_records(self, job_ids: Iterable[JobId], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of these jobs that were submitted since a time.

        slurmdbd is searched by Slurm job name, which contains only the job number. So the result
        may contain jobs of other chains. Their job keys are different.

        Unit: ``since`` Unix seconds.
        """
        ...


class Reports(Protocol):
    """The reports of Slurm's plugins. A report is only a hint."""

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return reports with a sequence number above ``after``, sorted by sequence number.

        One call may return only the first of these reports. If there is no such report, the call
        waits up to ``wait_s`` seconds for one, and then returns an empty tuple.
        """
        ...


class Slurm(Protocol):
    """Slurm, with the rights of SlurmUser. The caller must check what its own client may do."""

    def submit(self, submission: Submission) -> int:
        """Submit a job and return its Slurm job id.

        Raises:
            SubmitRejected: As in Scheduler.
            SchedulerUnavailable: As in Scheduler.
            AssociationUnknown: If slurmctld has no association for the user.
        """
        ...

    def find(self, slurm_job_id: int) -> Attempt | None:
        """Return the job with this id. Returns None if slurmctld does not list it."""
        ...

    def cancel(self, slurm_job_id: int) -> None:
        """Cancel a Slurm job of any user. Does nothing if it has ended or is unknown."""
        ...

    def extend(self, slurm_job_id: int, *, time_limit_min: int) -> None:
        """Set the time limit of a Slurm job. Does nothing if it has ended or is unknown.

        Unit: ``time_limit_min`` minutes since the start of the Slurm job.
        """
        ...

    def list_jobs(self) -> ControllerSample:
        """Return the jobs that slurmctld lists now."""
        ...

    def list_records(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of these Slurm job names that were submitted since a time.

        Unit: ``since`` Unix seconds.
        """
        ...

    def hardware(self) -> Hardware:
        """Return the nodes of the cluster from Slurm's configuration, sorted by node name."""
        ...

    def free_nodes(self) -> Hardware:
        """Return the free resources of each node that accepts jobs, as in Scheduler."""
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
        """Create the user's Slurm association if it is missing. A repeated call is cheap."""
        ...

    def reassociate(self, address: str) -> None:
        """Check the association without a cache, and make slurmctld read all associations again."""
        ...


class ReportStore(Protocol):
    """The reports of Slurm's plugins, in order. Only reports that are on disk can be read."""

    def add(self, hints: Iterable[Hint]) -> None:
        """Store new hints with increasing sequence numbers. Ignore hints that exist already."""
        ...

    def list_after(self, sequence: int, *, wait_s: float) -> tuple[NodeReport, ...]:
        """Return reports with a sequence number above ``sequence``. May be empty.

        If there is no such report, the call waits up to ``wait_s`` seconds for one.
        """
        ...

    def delete(self, *, before: int) -> None:
        """Delete the reports that were stored before a time. Unit: Unix seconds."""
        ...


class CompletionSpool(Protocol):
    """The spool file to which the job completion plugin appends."""

    def read_lines(self) -> tuple[str, ...]:
        """Return the oldest lines. May be empty.

        Every call returns the same lines until ``remove_lines`` is called.
        """
        ...

    def remove_lines(self, *, rejected: Iterable[str]) -> None:
        """Remove the lines that ``read_lines`` returned, and save the rejected lines in a file.

        The file is for the operator.
        """
        ...


class MungeOpener(Protocol):
    """Opens MUNGE credentials."""

    def open(self, credential: bytes) -> MungeCredential:
        """Return the content of a credential and the user that created it.

        Raises:
            NotAllowed: If the credential is invalid, has expired, belongs to another cluster, or
                was opened before.
            SchedulerUnavailable: If munged does not answer.
        """
        ...
