# SPDX-License-Identifier: Apache-2.0
"""Computes the time limit of a job, its billed time, and the hash of the billed record."""

from __future__ import annotations

import hashlib

from gridstead.domain.jobs.billing import SECONDS_PER_MINUTE, paid_minutes_floor, paid_seconds_floor
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.attempt import Attempt, NodeReport
from gridstead.domain.supervisor.evidence import node_seconds


def time_limit_min(job: Job, *, longest: int) -> int:
    """Return the time limit of a job: the minutes that its escrow pays for, at most ``longest``."""
    paid = paid_minutes_floor(job.escrow, job.price_per_min)
    return longest if paid is None else min(paid, longest)


def billed_seconds(job: Job, attempt: Attempt, reports: tuple[NodeReport, ...]) -> int:
    """Return the seconds to bill: the minimum of Slurm's figure, the paid time and the node's.

    The node's figure is used only if a report has it.

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
    """Return the minutes to report to contracts that do not bill seconds, rounded down.

    The result is 0 for a panic. A customer pays neither for unused time nor for a fault of the
    provider. DeepSquare's contracts, version 1.2, bill one minute instead of 0 for every job that
    ran; no call avoids this.
    """
    return 0 if state is JobState.PANICKED else seconds // SECONDS_PER_MINUTE


def slack_seconds(job: Job, *, now: int, slack_min: int) -> int:
    """Return the maximum that DeepSquare's contracts, version 1.2, bill if the start came late.

    These contracts count the time since they received the start, in whole minutes, and accept a
    bill that exceeds this time by at most a slack. For a higher bill they pay only the counted
    time. So reporting less pays the provider more, but never more than was used.
    """
    counted_min = max(0, now - job.started_at) // SECONDS_PER_MINUTE
    return (counted_min + slack_min) * SECONDS_PER_MINUTE


def evidence_hash(attempt: Attempt) -> str:
    """Return the SHA-256 of the billed accounting record: 0x and 64 hexadecimal digits."""
    fields = (
        attempt.job_key,
        attempt.slurm_job_id,
        attempt.user,
        attempt.state,
        attempt.submitted_at,
        attempt.started_at,
        attempt.ended_at,
        attempt.suspended_s,
        attempt.exit_code,
    )
    return "0x" + hashlib.sha256("|".join(map(str, fields)).encode()).hexdigest()
