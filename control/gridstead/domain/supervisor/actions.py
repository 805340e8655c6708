# SPDX-License-Identifier: Apache-2.0
"""The actions of a supervisor. A plan is a sequence of them."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Job
from gridstead.domain.supervisor.journal import JournalEntry
from gridstead.domain.transactions.calls import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Put a call into the outbox.

    ``services/supervisor/supervisor.py`` performs it with ``Outbox.put_all``. The sender,
    ``services/transactions/sender.py``, finds the call there in its own tick, with
    ``Transactions.next_entries``.
    """

    key: str
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Append an entry to the journal."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Fetch the job's script, check the gate and submit the job to Slurm.

    Unit: ``time_limit_min`` minutes.
    """

    job: Job
    time_limit_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel a Slurm job."""

    slurm_job_id: int
    job_key: JobKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Raise the time limit of a Slurm job to the time that is paid now.

    Unit: ``time_limit_min`` minutes in all.
    """

    slurm_job_id: int
    job_key: JobKey
    time_limit_min: int


Action = Put | Note | Submit | Cancel | Extend
