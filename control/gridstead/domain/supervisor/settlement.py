# SPDX-License-Identifier: Apache-2.0
"""Computes the time limit of a job, the billed time, and the hash of the billed record."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gridstead.domain.jobs.billing import SECONDS_PER_MINUTE, paid_minutes_floor, paid_seconds_floor
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.attempt import Attempt, NodeReport
from gridstead.domain.supervisor.evidence import node_seconds
from gridstead.domain.supervisor.hooks import pre_hook_seconds


def time_limit_min(job: Job, *, max_min: int) -> int:
    """Return the time limit of a job: the minutes that its escrow pays for, at most ``max_min``."""
    paid_min = paid_minutes_floor(job.escrow, job.price_per_min)
    return max_min if paid_min is None else min(paid_min, max_min)


def billed_seconds(
    job: Job, attempt: Attempt, reports: Sequence[NodeReport], *, hook_timeout_s: int = 0
) -> int:
    """Return the seconds to bill, as specified in docs/explanation/billing.md.

    The result is the minimum of four values: the elapsed time in Slurm, the time that the escrow
    pays for, the run time in the reports of the nodes, and the time until a request to cancel that
    the chain received before the start. The reports and the request may be missing. The elapsed
    time, the run time and the time until the request contain neither the run time of the site's
    pre-hooks nor the time for which the job was suspended.

    Args:
        job: The job.
        attempt: The attempt that ran the job.
        reports: The reports that may be about the attempt.
        hook_timeout_s: The maximum run time of the pre-hooks, seconds. 0 if there are none.

    Guarantee: the result is at most ``hook_timeout_s`` less than the result without pre-hooks.
    """
    ran_s = attempt.elapsed_s
    node_s = node_seconds(attempt, reports)
    if node_s is not None:
        ran_s = min(ran_s, node_s)
    if job.bill_until is not None:
        ran_s = min(ran_s, job.bill_until - job.started_at - attempt.suspended_s)
    hooks_s = pre_hook_seconds(attempt, reports, timeout_s=hook_timeout_s)
    seconds = max(0, ran_s - hooks_s)
    paid_s = paid_seconds_floor(job.escrow, job.price_per_min)
    return seconds if paid_s is None else min(seconds, paid_s)


def billed_minutes(state: JobState, seconds: int) -> int:
    """Return the minutes to report to contracts that bill minutes instead of seconds.

    The minutes are rounded down, because a customer does not pay for unused time. The result is 0
    for a panic, because a customer does not pay for a fault of the provider. Nevertheless,
    DeepSquare's contracts, version 1.2, bill at least one minute for every job that ran.
    """
    return 0 if state is JobState.PANICKED else seconds // SECONDS_PER_MINUTE


def max_billable_seconds(job: Job, *, now: int, slack_min: int) -> int:
    """Return the highest bill in seconds that DeepSquare's contracts, version 1.2, pay in full.

    These contracts count the whole minutes since they received the start of the job. The contracts
    pay a bill in full if the bill exceeds the counted minutes by at most ``slack_min``. If a bill
    is higher, the contracts pay only the counted minutes. So the provider must not report more than
    this maximum.
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
