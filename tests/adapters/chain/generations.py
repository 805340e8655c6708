# SPDX-License-Identifier: Apache-2.0
"""The expected differences between the three generations of contracts.

The generations are the contracts of DeepSquare 1.2 ("plain DeepSquare"), and our contracts of
release 2.0.0 and of this release, which are derived from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gridstead.domain.jobs.lifecycle import JobState


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The expected behaviour of a generation.

    Attributes:
        version: The first number of the version that MetaScheduler reports; empty if it reports no
            version.
        max_calls: The highest number of calls in one transaction.
        max_claimed_jobs: The highest number of jobs that one claim takes.
        billing_unit_s: The billed time is rounded down to a multiple of this unit.
        min_billed_s: The minimum billed time of a job that ran.
        is_panic_free: Whether a panicked job costs nothing. If false, it costs the minimum bill.
        keeps_reported_start: Whether the start time of a job is the reported time. If false, it is
            the time of the block that contains the report.
        fixes_price: Whether a match fixes the price of the job. If false, the job is billed at the
            provider's current price.
        notifies_of_early_cancel: Whether a provider is notified of jobs that are cancelled before
            they run.
        requests_cancel: Whether the cancellation of a claimed job is a request to its provider. If
            false, the job ends at once with a full refund.
        settles_when_removed: Whether a removed provider may settle its running jobs.
        request_transactions: How many transactions a job request without an earlier allowance
            takes.
        has_own_events: Whether the contracts emit events that DeepSquare 1.2 does not have.
        expires_claimed_jobs: Whether another account can end a claimed job that never starts.
        approves_records: Whether the approval of a provider names the record that is approved.
    """

    version: str
    max_calls: int
    max_claimed_jobs: int
    billing_unit_s: int
    min_billed_s: int
    is_panic_free: bool
    keeps_reported_start: bool
    fixes_price: bool
    notifies_of_early_cancel: bool
    requests_cancel: bool
    settles_when_removed: bool
    request_transactions: int
    has_own_events: bool
    expires_claimed_jobs: bool
    approves_records: bool

    def billed_s(self, reported_s: int, state: JobState = JobState.FINISHED) -> int:
        """Return the seconds that are billed for a job that ran."""
        if state is JobState.PANICKED:
            return 0 if self.is_panic_free else self.min_billed_s
        whole_units_s = reported_s // self.billing_unit_s * self.billing_unit_s
        return max(self.min_billed_s, whole_units_s)


OURS = Generation(
    version="3",
    max_calls=50,
    max_claimed_jobs=50,
    billing_unit_s=1,
    min_billed_s=0,
    is_panic_free=True,
    keeps_reported_start=True,
    fixes_price=True,
    notifies_of_early_cancel=True,
    requests_cancel=True,
    settles_when_removed=True,
    request_transactions=1,
    has_own_events=True,
    expires_claimed_jobs=True,
    approves_records=True,
)
RELEASE_2 = replace(OURS, version="2", approves_records=False, requests_cancel=False)
PLAIN_DEEPSQUARE = Generation(
    version="",
    max_calls=1,
    max_claimed_jobs=1,
    billing_unit_s=60,
    min_billed_s=60,
    is_panic_free=False,
    keeps_reported_start=False,
    fixes_price=False,
    notifies_of_early_cancel=False,
    requests_cancel=False,
    settles_when_removed=False,
    request_transactions=2,
    has_own_events=False,
    expires_claimed_jobs=False,
    approves_records=False,
)
GENERATIONS = {"ours": OURS, "2.0.0": RELEASE_2, "1.2": PLAIN_DEEPSQUARE}


def by_version(version: str) -> Generation:
    """Return the generation of contracts that report this version; empty for DeepSquare 1.2."""
    number, _, _ = version.partition(".")
    return next(known for known in GENERATIONS.values() if known.version == number)


# Runs a test that uses the fixture ``chain`` once on each generation.
on_all = pytest.mark.parametrize("generation", list(GENERATIONS), indirect=True)

# Runs a test on our contracts while JobRepository still has an admin.
on_unsealed = pytest.mark.parametrize("generation", ["unsealed"], indirect=True)
