# SPDX-License-Identifier: Apache-2.0
"""The host of Slurm's controller, as the agent on it has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.attempt import AccountingSample, Attempt, LiveSample, NodeReport
from gridstead.domain.hint import Hint, OpenedSeal
from gridstead.domain.job import Hardware
from gridstead.domain.submission import GridUser, Submission


class Slurm(Protocol):
    """Slurm as the agent beside it has it: SlurmUser's hands. Who may ask for what is decided above
    it.
    """

    def submit(self, submission: Submission) -> int:
        """Queue an attempt and return its Slurm job id; errors and guarantees as in Scheduler.

        Raises:
            AssociationUnknown: slurmctld does not know the user's association.
        """
        ...

    def find(self, slurm_job_id: int) -> Attempt | None:
        """Return a job that slurmctld lists, None if it lists none of this id."""
        ...

    def cancel(self, slurm_job_id: int) -> None:
        """Ask Slurm to end a job, whosever it is; one that has ended or is unknown is left alone."""
        ...

    def extend(self, slurm_job_id: int, *, time_limit_min: int) -> None:
        """Set a job's time limit to so many minutes; one that has ended or is unknown is left
        alone.
        """
        ...

    def live(self) -> LiveSample:
        """Return what slurmctld lists now."""
        ...

    def accounting(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return what slurmdbd has under these job names, submitted since then (Unix seconds)."""
        ...

    def hardware(self) -> Hardware:
        """Return the cluster's nodes as Slurm has them, sorted by node name."""
        ...


class Accounts(Protocol):
    """What a customer needs on this host before a job of its may start."""

    def user(self, address: str) -> GridUser | None:
        """Return the account that the name resolves to, None while it resolves to none."""
        ...

    def missing_directories(self, user: GridUser) -> tuple[str, ...]:
        """Return the user's directories that are not there or not its own, in words."""
        ...

    def associate(self, address: str) -> None:
        """Make sure that Slurm's accounting knows the user. Safe to repeat, and cheap once it is
        so.
        """
        ...

    def reassociate(self, address: str) -> None:
        """Make sure again, whatever was known, and have slurmctld read all associations anew."""
        ...


class ReportStore(Protocol):
    """What plugins said, in order, durable before it is offered."""

    def add(self, hints: Iterable[Hint]) -> None:
        """Store hints under growing sequences; one that is there already changes nothing."""
        ...

    def after(self, sequence: int, *, wait_s: float) -> tuple[NodeReport, ...]:
        """Return reports with a greater sequence, waiting up to so long for the first. May be
        empty.
        """
        ...

    def forget(self, *, before: int) -> None:
        """Delete what was stored before then (Unix seconds)."""
        ...


class CompletionSpool(Protocol):
    """The file that the job completion plugin appends to."""

    def take(self) -> tuple[str, ...]:
        """Return the oldest lines that were not given back yet; the same again until ``done``. May
        be empty.
        """
        ...

    def done(self, *, rejected: Iterable[str]) -> None:
        """Forget the lines of the last ``take``, all but the rejected, which are put aside for the
        operator.
        """
        ...


class ReportSeal(Protocol):
    """MUNGE."""

    def open(self, sealed: bytes) -> OpenedSeal:
        """Return what was sealed and by whom.

        Raises:
            NotAllowed: It is no fresh credential of this cluster, or was opened before.
        """
        ...
