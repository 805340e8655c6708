# SPDX-License-Identifier: Apache-2.0
"""Determines from the reports of a node how the site's pre-hooks affect the end of a job.

Pre-hooks are commands of the operator. They run as root in Slurm's prolog on the first node of a
job, after Slurm has started the job and before the batch step. The batch step runs the customer's
script. If a pre-hook fails, the prolog sends a report and cancels the Slurm job.

Only root on a node can send reports, so a customer can neither invent a failed pre-hook nor extend
the run time of the pre-hooks.
"""

from __future__ import annotations

from collections.abc import Iterable

from gridstead.domain.supervisor.attempt import Attempt, NodeReport

PRE_HOOK_FAILED = "pre_hook_failed"
MAX_CANCELLATION_S = 30  # the prolog tries to cancel a job for at most 10 s
_START = "start"
_BATCH_STEP_EVENTS = frozenset({_START, "end"})


def pre_hook_failed(attempt: Attempt, reports: Iterable[NodeReport], *, clock_skew_s: int) -> bool:
    """Return whether a failed pre-hook ended an attempt before its batch step started.

    An attempt that ended long after the failure was not cancelled by the prolog. So even if the
    prolog cannot cancel the attempt and all reports of the batch step are lost, the customer cannot
    use the failure for a long run without a bill.

    Args:
        attempt: An attempt that has ended.
        reports: The reports that may be about the attempt.
        clock_skew_s: The maximum difference between the clocks of a node and of slurmctld, seconds.
    """
    if attempt.state != "CANCELLED" or attempt.started_at is None or attempt.ended_at is None:
        return False
    earliest_at = attempt.started_at - clock_skew_s
    latest_at = attempt.ended_at + clock_skew_s
    earliest_cause_at = attempt.ended_at - clock_skew_s - MAX_CANCELLATION_S
    has_failed = False
    for report in reports:
        is_near_run = earliest_at <= report.occurred_at <= latest_at
        if not is_near_run or not _is_about(report, attempt):
            continue
        if report.event in _BATCH_STEP_EVENTS:
            return False
        is_cause = report.occurred_at >= earliest_cause_at
        if report.event == PRE_HOOK_FAILED and is_cause:
            has_failed = True
    return has_failed


def pre_hook_seconds(attempt: Attempt, reports: Iterable[NodeReport], *, timeout_s: int) -> int:
    """Return how many seconds of an attempt passed before its batch step started.

    The result is at most ``timeout_s``. It is ``timeout_s`` if no report of the start of the batch
    step matches the attempt. So a lost report never raises a bill.
    """
    if attempt.started_at is None or attempt.ended_at is None:
        return timeout_s
    start_times = []
    for report in reports:
        is_within_run = attempt.started_at <= report.occurred_at <= attempt.ended_at
        if report.event == _START and is_within_run and _is_about(report, attempt):
            start_times.append(report.occurred_at)
    if not start_times:
        return timeout_s
    return min(timeout_s, max(start_times) - attempt.started_at)


def _is_about(report: NodeReport, attempt: Attempt) -> bool:
    """Return whether a report has the Slurm job id and the uid of an attempt."""
    return (report.slurm_job_id, report.uid) == (attempt.slurm_job_id, attempt.uid)
