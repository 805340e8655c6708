# SPDX-License-Identifier: Apache-2.0
"""What an attempt amounts to in money: how long it may run, for how long it is billed, and by which
record.
"""

from __future__ import annotations

import hashlib

from gridstead.domain.attempt import Attempt, NodeReport
from gridstead.domain.billing import SECONDS_PER_MINUTE, paid_minutes_floor, paid_seconds_floor
from gridstead.domain.evidence import node_seconds
from gridstead.domain.job import Job
from gridstead.domain.lifecycle import JobState


def time_limit_min(job: Job, *, longest: int) -> int:
    """Return how many whole minutes the job may run: what its lock pays for, at most the longest."""
    paid = paid_minutes_floor(job.escrow, job.price_per_min)
    return longest if paid is None else min(paid, longest)


def billed_seconds(job: Job, attempt: Attempt, reports: tuple[NodeReport, ...]) -> int:
    """Return the seconds to bill: the least of Slurm's figure, the paid time, and the node's figure
    if we hold one.

    Source: docs/explanation/billing.md.
    """
    figures = [attempt.elapsed_s]
    paid = paid_seconds_floor(job.escrow, job.price_per_min)
    if paid is not None:
        figures.append(paid)
    node = node_seconds(attempt, reports)
    if node is not None:
        figures.append(node)
    return min(figures)


def billed_minutes(state: JobState, seconds: int) -> int:
    """Return the whole minutes to report where the contracts know no seconds: rounded down, none
    for a panic.

    Nobody pays for more than was used, nor for a provider's own fault. DeepSquare's contracts, line
    1.2, make one minute of none for every job that ran; no call of theirs avoids that.
    """
    return 0 if state is JobState.PANICKED else seconds // SECONDS_PER_MINUTE


def slack_seconds(job: Job, *, now: int, slack_min: int) -> int:
    """Return the most that DeepSquare's contracts, line 1.2, bill of a job whose start they were
    told late.

    They know the time since they were told, in whole minutes, and allow a slack over it. A bill
    above both counts as that time alone, so less is told and more is paid; never more than was
    used.
    """
    told_min = max(0, now - job.started_at) // SECONDS_PER_MINUTE
    return (told_min + slack_min) * SECONDS_PER_MINUTE


def evidence_hash(attempt: Attempt) -> str:
    """Return the SHA-256 of the accounting record that a bill rests on, 0x and 64 hexadecimal
    digits.
    """
    fields = (
        attempt.job_key, attempt.slurm_job_id, attempt.user, attempt.state, attempt.submitted_at,
        attempt.started_at, attempt.ended_at, attempt.suspended_s, attempt.exit_code,
    )  # fmt: skip
    return "0x" + hashlib.sha256("|".join(map(str, fields)).encode()).hexdigest()
