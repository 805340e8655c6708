# SPDX-License-Identifier: Apache-2.0
"""The cluster, as the supervisor has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gridstead.domain.attempt import AccountingSample, LiveSample, NodeReport
from gridstead.domain.job import Hardware
from gridstead.domain.submission import Gate, Submission


class Scheduler(Protocol):
    """Slurm, for jobs of wallet users only."""

    def submit(self, submission: Submission) -> int:
        """Queue an attempt and return its Slurm job id.

        Raises:
            SubmitRejected: Slurm said no; nothing is queued.
            SchedulerUnavailable: It is not known whether it is queued: look before asking again.
        """
        ...

    def cancel(self, slurm_job_id: int, *, job_key: str) -> None:
        """Ask Slurm to end an attempt, if its AdminComment is this job key; anything else is left
        alone.

        Calling it again, or for an attempt that has ended or is unknown, is safe.
        """
        ...

    def extend(self, slurm_job_id: int, *, job_key: str, time_limit_min: int) -> None:
        """Raise an attempt's time limit to so many minutes, if its AdminComment is this job key.
        Safe to repeat.
        """
        ...

    def live(self) -> LiveSample:
        """Return what slurmctld lists now."""
        ...

    def accounting(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return what slurmdbd has under these job names, submitted since then (Unix seconds)."""
        ...

    def gate(self, address: str) -> Gate:
        """Return whether this customer can run here; make the Slurm association if only that is
        missing.
        """
        ...

    def hardware(self) -> Hardware:
        """Return the cluster's nodes as Slurm has them, sorted by node name."""
        ...


class Reports(Protocol):
    """What plugins said; hints."""

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        """Return the next reports with a greater sequence, not always all; waits up to so long for
        the first.

        Shape: sorted by sequence; empty only if there is none.
        """
        ...
