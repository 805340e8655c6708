# SPDX-License-Identifier: Apache-2.0
"""Collects the matches that the contracts skipped, and excludes the providers that caused this.

Only the sender reports skipped matches. It finds them in the receipts of the transactions of our
wallet. Events prove nothing, because anyone can make the contracts emit the event of a skipped
match. ``domain/matching/skips.py`` has the rules.

The skipped matches are in the snapshots of the meta-scheduler. After a crash, those since the last
snapshot are lost, so a pending job may lose one more match.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from queue import SimpleQueue

import structlog

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.matching.skips import (
    SKIPPED_SEVERAL,
    Exclusion,
    SkipHistory,
    SkipsSnapshot,
)
from gridstead.domain.transactions.outbox import SkippedCall
from gridstead.ports import Clock

log = structlog.get_logger()


class SkippedMatches:
    """The skipped matches of a meta-scheduler.

    Args:
        clock: The wall clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._new_calls: SimpleQueue[SkippedCall] = SimpleQueue()
        self._history = SkipHistory()
        # Other threads read these values. They are replaced, never changed.
        self._exclusions: Mapping[str, Exclusion] = {}
        self._counts: Mapping[str, int] = self._history.counts()

    def add(self, skipped_call: SkippedCall) -> None:
        """Add a skipped call. It takes effect at the next ``update``. May run in any thread."""
        self._new_calls.put(skipped_call)

    def update(self) -> None:
        """Add the new skipped calls, forget old ones, and log which exclusions start and end."""
        now = self._clock.now()
        self._history.forget_old(now)
        while not self._new_calls.empty():
            self._add_to_history(self._new_calls.get_nowait())
        exclusions = self._history.exclusions()
        for provider in exclusions.keys() - self._exclusions.keys():
            exclusion = exclusions[provider]
            log.warning(
                "provider_excluded",
                provider=provider,
                reason=_reason(exclusion),
                duration_s=exclusion.until - now,
            )
        for provider in self._exclusions.keys() - exclusions.keys():
            log.info("provider_exclusion_ended", provider=provider)
        self._exclusions = exclusions
        self._counts = self._history.counts()

    def snapshot(self) -> SkipsSnapshot:
        """Return the skipped matches, also those since the last ``update``."""
        self.update()
        return self._history.snapshot()

    def restore(self, snapshot: SkipsSnapshot) -> None:
        """Restore the skipped matches. Exclusions that were logged before are not logged again."""
        self._history.restore(snapshot)
        self._exclusions = self._history.exclusions()
        self._counts = self._history.counts()

    def job_ids(self) -> set[JobId]:
        """Return the jobs from which ``excluded_from`` excludes a provider."""
        return {job_key.job_id for job_key in self._history.skipped_providers}

    def excluded_from(self, job_key: JobKey) -> dict[str, str]:
        """Return the providers that are excluded from a job, with the reasons, by address.

        Providers that are excluded from all jobs are not included.
        """
        return self._history.excluded_from(job_key)

    def excluded_from_all(self) -> dict[str, str]:
        """Return the providers that are excluded from all jobs, with the reasons, by address."""
        return dict.fromkeys(self._exclusions, SKIPPED_SEVERAL)

    def exclusions(self) -> Mapping[str, str]:
        """Return the providers that are excluded from all jobs, with the reasons, by address."""
        reasons: dict[str, str] = {}
        for provider, exclusion in self._exclusions.items():
            until = datetime.fromtimestamp(exclusion.until, UTC)
            reasons[provider] = f"{_reason(exclusion)}; excluded until {until.isoformat()}"
        return reasons

    def counts(self) -> Mapping[str, int]:
        """Return how many changes of terms caused skipped matches, by the contracts' error."""
        return self._counts

    def _add_to_history(self, skipped_call: SkippedCall) -> None:
        match = self._history.add(skipped_call)
        if match is not None:
            log.info(
                "match_skipped",
                job_id=match.job_key.job_id,
                provider=match.provider,
                reason=skipped_call.error,
            )


def _reason(exclusion: Exclusion) -> str:
    count = exclusion.change_count
    return f"{count} changes of its terms before matches, the last: {exclusion.last_error}"
