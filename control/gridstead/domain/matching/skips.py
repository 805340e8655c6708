# SPDX-License-Identifier: Apache-2.0
"""Decides which providers are excluded from matching because the contracts skipped their matches.

A match names the highest price that it accepts. The contracts skip the match if the price of the
provider has risen since the meta-scheduler read it, or if the provider no longer accepts jobs. A
provider could be the cheapest whenever the meta-scheduler reads the prices, and raise its price in
the block before each match. Without the following rules, such a provider would keep every job
pending:

- After a skipped match, the provider is excluded from this job for ``JOB_EXCLUSION_S``. Then
  the provider may get the job, if no other provider got it.
- After ``MAX_CHANGES`` changes of its terms within ``PERIOD_S`` that caused skipped matches, it is
  excluded from all jobs until the first of these changes is older than ``PERIOD_S``.

One change of the price can cause many skipped matches, because several matches may wait for a
block. Such skipped matches count as one change. A skipped match counts as a further change only if
the match was requested after the previous change was seen. So after a single change, an honest
provider still gets all other jobs.

The contracts of DeepSquare 1.2, from which Gridstead's contracts are derived, do not skip matches.
With those contracts, a provider cannot change its prices without a new approval.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.transactions.calls import Match
from gridstead.domain.transactions.outbox import SkippedCall

JOB_EXCLUSION_S = 600
PERIOD_S = 3600
MAX_CHANGES = 3

# The contracts' errors for a match that its provider can cause. Other errors, such as that of a job
# that was cancelled, have other causes.
PROVIDER_ERRORS = ("PriceAboveLimit", "InsufficientFunds", "ProviderNotJoined")
SKIPPED_THIS_JOB = "changed its terms before the match and will be matched again later"
SKIPPED_SEVERAL = "changed its terms before several matches and is excluded for a while"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a provider's terms that caused skipped matches.

    Attributes:
        seen_at: When the first skipped match was seen, Unix seconds.
        error: The contracts' error for this match, with its arguments.
    """

    seen_at: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """The exclusion of a provider from all jobs.

    Attributes:
        until: The end of the exclusion, Unix seconds.
        change_count: How many changes of its terms caused the exclusion.
        last_error: The contracts' error for a match that the last of these changes caused.
    """

    until: int
    change_count: int
    last_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipsSnapshot:
    """The values of a ``SkipHistory``, which documents them."""

    skips: Mapping[tuple[JobKey, str], int]
    changes: Mapping[str, tuple[Change, ...]]


def error_name(error: str) -> str:
    """Return the name of a contracts' error, without its arguments."""
    return error.partition("(")[0]


@dataclass(slots=True)
class SkipHistory:
    """The skipped matches and the changes of terms that still exclude providers.

    Attributes:
        skips: When a skipped match was seen (Unix seconds), by job and provider, oldest first. Each
            is forgotten after ``JOB_EXCLUSION_S``.
        skipped_providers: The providers whose matches of a job are in ``skips``, by job.
        changes: The changes of each provider, oldest first, at most ``MAX_CHANGES``. Each is
            forgotten after ``PERIOD_S``.
    """

    skips: OrderedDict[tuple[JobKey, str], int] = field(default_factory=OrderedDict)
    skipped_providers: dict[JobKey, set[str]] = field(default_factory=dict)
    changes: dict[str, list[Change]] = field(default_factory=dict)

    def snapshot(self) -> SkipsSnapshot:
        """Return all values. Later changes do not change the result."""
        changes = {provider: tuple(changes) for provider, changes in self.changes.items()}
        return SkipsSnapshot(skips=self.skips.copy(), changes=changes)

    def restore(self, snapshot: SkipsSnapshot) -> None:
        """Restore all values."""
        self.skips = OrderedDict(snapshot.skips)
        self.skipped_providers.clear()
        for job_key, provider in self.skips:
            self.skipped_providers.setdefault(job_key, set()).add(provider)
        self.changes = {provider: list(changes) for provider, changes in snapshot.changes.items()}

    def add(self, skipped: SkippedCall) -> Match | None:
        """Add a skipped match.

        Returns:
            The match. None for a call or an error that does not count against a provider.
        """
        match = skipped.call
        if not isinstance(match, Match) or error_name(skipped.error) not in PROVIDER_ERRORS:
            return None
        job_and_provider = (match.job_key, match.provider)
        self.skips[job_and_provider] = skipped.seen_at
        self.skips.move_to_end(job_and_provider)
        self.skipped_providers.setdefault(match.job_key, set()).add(match.provider)
        changes = self.changes.setdefault(match.provider, [])
        if not changes or skipped.requested_at > changes[-1].seen_at:
            changes.append(Change(seen_at=skipped.seen_at, error=skipped.error))
            del changes[:-MAX_CHANGES]
        return match

    def forget_old(self, now: int) -> None:
        """Forget old skipped matches and changes, and those in the future after a clock step."""
        while self.skips:
            job_and_provider, seen_at = next(iter(self.skips.items()))
            if 0 <= now - seen_at < JOB_EXCLUSION_S:
                break
            del self.skips[job_and_provider]
            self._forget_provider_of_job(*job_and_provider)
        for provider, changes in list(self.changes.items()):
            recent_changes = [change for change in changes if 0 <= now - change.seen_at < PERIOD_S]
            self.changes[provider] = recent_changes
            if not recent_changes:
                del self.changes[provider]

    def exclusions(self) -> dict[str, Exclusion]:
        """Return the providers that are excluded from all jobs, by address."""
        exclusions: dict[str, Exclusion] = {}
        for provider, changes in self.changes.items():
            if len(changes) == MAX_CHANGES:
                exclusions[provider] = Exclusion(
                    until=changes[0].seen_at + PERIOD_S,
                    change_count=len(changes),
                    last_error=changes[-1].error,
                )
        return exclusions

    def excluded_from(self, job_key: JobKey) -> dict[str, str]:
        """Return the providers that are excluded from one job, with the reasons, by address."""
        return dict.fromkeys(self.skipped_providers.get(job_key, ()), SKIPPED_THIS_JOB)

    def counts(self) -> dict[str, int]:
        """Return the number of changes by the name of the contracts' error."""
        counts = dict.fromkeys(PROVIDER_ERRORS, 0)
        for changes in self.changes.values():
            for change in changes:
                counts[error_name(change.error)] += 1
        return counts

    def _forget_provider_of_job(self, job_key: JobKey, provider: str) -> None:
        providers = self.skipped_providers[job_key]
        providers.discard(provider)
        if not providers:
            del self.skipped_providers[job_key]
