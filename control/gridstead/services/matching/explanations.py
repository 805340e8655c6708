# SPDX-License-Identifier: Apache-2.0
"""Explains why pending jobs wait, for the queue view and the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridstead.domain.jobs.ids import JobId, is_batch_location_hash
from gridstead.domain.jobs.job import Job
from gridstead.domain.matching.decisions import Limits
from gridstead.domain.matching.matcher import Matcher
from gridstead.domain.matching.queues import JobKind
from gridstead.domain.matching.reasons import waiting_reason

MAX_EXPLANATIONS = 500


class Explanations:
    """The reasons why jobs wait, as of the last call of ``explain``."""

    def __init__(self) -> None:
        self._reasons: dict[JobId, str] = {}
        self._next_explained = 0

    def explain(
        self,
        waiting_jobs: Sequence[Job],
        matcher: Matcher,
        *,
        limits_by_job: Mapping[JobId, Limits],
        excluded_providers: Mapping[str, str],
    ) -> dict[JobId, str]:
        """Return why jobs wait, by job. Some reasons may be those of an earlier call.

        Jobs with the same requirements and without limits of their own share one reason. A call
        computes at most ``MAX_EXPLANATIONS`` reasons. It starts where the last one stopped.

        Args:
            waiting_jobs: The pending jobs without an open match.
            matcher: The state of the grid after the last decision.
            limits_by_job: The limits of each of these jobs.
            excluded_providers: The providers that are excluded from all jobs, with the reasons, by
                address.
        """
        reasons: dict[JobId, str] = {}
        shared_reasons: dict[JobKind, str] = {}
        start = self._next_explained % max(1, len(waiting_jobs))
        explanation_count = 0
        for index, job in enumerate((*waiting_jobs[start:], *waiting_jobs[:start]), start=start):
            if not is_batch_location_hash(job.batch_location_hash):  # No provider can run it.
                reasons[job.id] = "the script id of the job is malformed"
                continue
            kind = matcher.kind_of(job)
            reason = shared_reasons.get(kind)
            if reason is None and explanation_count == MAX_EXPLANATIONS:
                reason = self._reasons.get(job.id, "not explained yet")
            elif reason is None:
                explanation_count += 1
                self._next_explained = index + 1
                excluded = dict(excluded_providers) | dict(limits_by_job[job.id].excluded)
                reason = _reason(job, matcher, excluded)
                shared_reasons[kind] = reason
            reasons[job.id] = reason
        self._reasons = reasons
        return reasons


def _reason(job: Job, matcher: Matcher, excluded_providers: Mapping[str, str]) -> str:
    cluster = matcher.reserved.get(job.id)
    return waiting_reason(
        job,
        matcher.clusters.values(),
        excluded_providers=excluded_providers,
        reservation=None if cluster is None else cluster.reservation,
    )
