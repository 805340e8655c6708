# SPDX-License-Identifier: Apache-2.0
"""The expected differences between the two generations of contracts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gridstead.domain.jobs.lifecycle import JobState


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The expected behaviour of a generation.

    Attributes:
        version: The version of MetaScheduler; empty if it has no version.
        batch: The highest number of calls in one transaction.
        claims: The highest number of jobs that one claim takes.
        unit_s: The unit of billed time, rounded down.
        least_s: The minimum billed time of a job that ran.
        panic_is_free: Whether a provider's panic costs nothing; else it costs the minimum bill.
        keeps_start: Whether a start may be reported later; else the job starts at the report.
        fixes_price: Whether a match fixes the price; else the provider's current price counts.
        tells_provider: Whether a provider is notified of jobs that are cancelled before they run.
        settles_when_removed: Whether a removed provider may settle its running jobs.
        requests: The transactions of a job request without an earlier allowance.
        own_events: Whether our own events are emitted next to the published ones.
        ends_claimed: Whether another account can end a claimed job that never starts.
    """

    version: str
    batch: int
    claims: int
    unit_s: int
    least_s: int
    panic_is_free: bool
    keeps_start: bool
    fixes_price: bool
    tells_provider: bool
    settles_when_removed: bool
    requests: int
    own_events: bool
    ends_claimed: bool

    def billed_s(self, seconds: int, state: JobState = JobState.FINISHED) -> int:
        """Return the seconds that are billed for the reported seconds of a job that ran."""
        if state is JobState.PANICKED:
            return 0 if self.panic_is_free else self.least_s
        return max(self.least_s, seconds // self.unit_s * self.unit_s)


OURS = Generation(
    version="2",
    batch=50,
    claims=50,
    unit_s=1,
    least_s=0,
    panic_is_free=True,
    keeps_start=True,
    fixes_price=True,
    tells_provider=True,
    settles_when_removed=True,
    requests=1,
    own_events=True,
    ends_claimed=True,
)
PLAIN = Generation(
    version="",
    batch=1,
    claims=1,
    unit_s=60,
    least_s=60,
    panic_is_free=False,
    keeps_start=False,
    fixes_price=False,
    tells_provider=False,
    settles_when_removed=False,
    requests=2,
    own_events=False,
    ends_claimed=False,
)
GENERATIONS = {"ours": OURS, "1.2": PLAIN}

# Runs a test that uses the fixture ``chain`` on both generations.
on_both = pytest.mark.parametrize("generation", list(GENERATIONS), indirect=True)

# Runs a test on our contracts while JobRepository still has an admin.
on_unsealed = pytest.mark.parametrize("generation", ["unsealed"], indirect=True)
