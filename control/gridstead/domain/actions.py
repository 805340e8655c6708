# SPDX-License-Identifier: Apache-2.0
"""What a supervisor can do: the words of its plan."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.domain.calls import Call
from gridstead.domain.ids import JobKey
from gridstead.domain.job import Job
from gridstead.domain.journal import JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Have a call sent."""

    key: str
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Remember something."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Fetch the script, pass the gate, queue an attempt. Unit: ``time_limit_min`` minutes."""

    job: Job
    time_limit_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End an attempt."""

    slurm_job_id: int
    job_key: JobKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Give an attempt the time that is paid by now. Unit: minutes in all."""

    slurm_job_id: int
    job_key: JobKey
    time_limit_min: int


Action = Put | Note | Submit | Cancel | Extend
