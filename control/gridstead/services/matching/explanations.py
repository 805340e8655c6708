# SPDX-License-Identifier: Apache-2.0
"""Explains why pending jobs wait, for the queue view and the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job
from gridstead.domain.matching.comparison import Comparison
from gridstead.domain.matching.decisions import Move
from gridstead.domain.matching.fair_order import Account, FairOrder
from gridstead.domain.matching.matcher import Matcher
from gridstead.domain.matching.queues import JobKind
from gridstead.domain.matching.reasons import (
    BEING_MATCHED,
    MALFORMED_SCRIPT_ID,
    NOT_EXPLAINED,
    Cause,
    ExpectedStart,
    Explanation,
    WaitingReason,
)

# The most comparisons of a job with a provider in one call. They take 50 ms on one core.
MAX_COMPARISONS = 10_000


@dataclass(frozen=True)
class _View:
    """The last explanations, which other threads read.

    Attributes:
        head: The block of the decision.
        reasons: Why jobs wait, by job.
        waiting_jobs: The pending jobs without an open match.
        accounts: The usage and the weight of each customer that has pending jobs.
    """

    head: Block
    reasons: Mapping[JobId, WaitingReason]
    waiting_jobs: Sequence[Job]
    accounts: Mapping[str, Account]

    @cached_property
    def fair_order(self) -> FairOrder:
        """The order of the jobs. It is computed only if a client asks for it."""
        jobs = [job for job in self.waiting_jobs if self.reasons[job.id] is not MALFORMED_SCRIPT_ID]
        return FairOrder(jobs, self.accounts)


class Explanations:
    """The reasons why jobs wait, as of the last call of ``explain``."""

    def __init__(self) -> None:
        self._view: _View | None = None  # Other threads read it. It is replaced, never changed.
        # The reason of each kind of pending jobs. The oldest explanation is the first.
        self._kind_reasons: dict[JobKind, WaitingReason] = {}
        self._last_moves: dict[JobId, Move] = {}  # by the job that has the reservation

    @property
    def last_moves(self) -> dict[JobId, Move]:
        """The last move of each reservation that became later, by the job."""
        return self._last_moves.copy()

    def add_moves(self, moves: Iterable[Move]) -> None:
        """Add the reservations that became later in the last decision."""
        for move in moves:
            self._last_moves[move.job_id] = move

    def explain(
        self,
        waiting_jobs: Sequence[Job],
        matcher: Matcher,
        *,
        head: Block,
        excluded_providers: Mapping[str, str],
        unstored: Mapping[JobId, str],
        malformed_ids: Iterable[JobId],
    ) -> dict[JobId, WaitingReason]:
        """Return why jobs are not matched, by job. Some reasons may be those of an earlier call.

        Jobs of one kind share one reason. It is the same object until the reason changes.

        Args:
            waiting_jobs: The pending jobs that the last decision did not match.
            matcher: The state of the grid after the decision.
            head: The block of the decision.
            excluded_providers: The providers that are excluded from all jobs, with the reasons, by
                address.
            unstored: The jobs whose matches could not be stored, with the errors.
            malformed_ids: The pending jobs that no provider can run.
        """
        self._forget_old_moves(matcher)
        self._explain_kinds(matcher, head, excluded_providers)
        reasons = dict.fromkeys(malformed_ids, MALFORMED_SCRIPT_ID)
        for queue in matcher.queues.values():
            for waiting_id, kind in queue.kinds.items():
                reasons[waiting_id] = self._kind_reasons.get(kind, NOT_EXPLAINED)
        for job_id, error in unstored.items():
            reasons[job_id] = WaitingReason(cause=Cause.NOT_STORED, text=error)
        accounts: dict[str, Account] = {}
        for customer in matcher.queues:
            usage = matcher.shares.usage(customer, block=head.number)
            accounts[customer] = Account(usage, matcher.shares.weight(customer, block=head.number))
        self._view = _View(head, reasons, waiting_jobs, accounts)
        return reasons

    def _explain_kinds(
        self, matcher: Matcher, head: Block, excluded_providers: Mapping[str, str]
    ) -> None:
        """Explain new kinds of jobs first, then those whose explanation is the oldest.

        The number of providers with which jobs are compared in one call is limited.
        """
        examples: dict[JobKind, JobId] = {}
        for queue in matcher.queues.values():
            for job_id, kind in queue.kinds.items():
                examples.setdefault(kind, job_id)
        old_reasons = self._kind_reasons
        reasons = {kind: old_reasons[kind] for kind in old_reasons if kind in examples}
        new_kinds = [kind for kind in examples if kind not in reasons]
        count = max(1, MAX_COMPARISONS // max(1, len(matcher.clusters)))
        comparison = Comparison(
            matcher.clusters.values(), policy=matcher.rules.policy, now=head.timestamp
        )
        for kind in (*new_kinds, *reasons)[:count]:
            job = matcher.job(examples[kind])
            old_reason = reasons.pop(kind, None)
            reason = comparison.reason(
                job,
                excluded_providers={**excluded_providers, **matcher.limits(job.id).excluded},
                expected_start=self._expected_start(job, matcher),
            )
            reasons[kind] = old_reason if old_reason == reason else reason
        self._kind_reasons = reasons

    def clear(self, head: Block) -> None:
        """Forget all reasons, because each pending job has an open match.

        Args:
            head: The newest block.
        """
        self._view = _View(head, {}, (), {})

    def of(self, job_id: JobId) -> Explanation | None:
        """Return the explanation of a pending job. May be called in any thread.

        Returns None before the first call of ``explain`` or ``clear``.

        Args:
            job_id: A job that is pending.
        """
        view = self._view
        if view is None:
            return None
        reason = view.reasons.get(job_id, BEING_MATCHED)
        return Explanation(
            job_id=job_id,
            reason=reason,
            ahead=view.fair_order.ahead_of(job_id),
            block=view.head,
        )

    def _forget_old_moves(self, matcher: Matcher) -> None:
        for job_id, move in list(self._last_moves.items()):
            cluster = matcher.reserved.get(job_id)
            if cluster is None or cluster.provider.address != move.provider:
                del self._last_moves[job_id]

    def _expected_start(self, job: Job, matcher: Matcher) -> ExpectedStart | None:
        cluster = matcher.reserved.get(job.id)
        if cluster is None or cluster.reservation is None:
            return None
        return ExpectedStart(
            provider=cluster.provider.address,
            start_at=cluster.reservation.start_at,
            last_move=self._last_moves.get(job.id),
        )
