# SPDX-License-Identifier: Apache-2.0
"""Ports of the host of Slurm's controller, as the agent on this host uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.jobs.job import Hardware
from gridstead.domain.slurm.hint import Hint, MungeCredential
from gridstead.domain.supervisor.attempt import AccountingSample, Attempt, LiveSample, NodeReport
from gridstead.domain.supervisor.submission import GridUser, Submission


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
