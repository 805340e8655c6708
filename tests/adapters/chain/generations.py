# SPDX-License-Identifier: Apache-2.0
"""Where the two generations of contracts rightly differ, in one place; in all else the same tests
hold for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gridstead.domain.lifecycle import JobState


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What a test may expect of a grid.

    Attributes:
        version: What MetaScheduler answers; empty if it has no such call.
        batch: Most calls in one transaction.
        claims: Most jobs that one claim takes.
        unit_s: Bills are in whole units of so many seconds, rounded down.
        least_s: Billed at least, once a job ran.
        panic_is_free: Whether a provider's panic costs nothing; if not, it costs as little as can
            be billed.
        keeps_start: Whether a start may be told later; if not, a job starts when it is told.
        fixes_price: Whether a match fixes the price; if not, it is the provider's of now.
        tells_provider: Whether a provider hears of jobs that are cancelled before they run.
        settles_when_removed: Whether a provider that was removed may still settle what it runs.
        requests: Transactions that ask for a job of a customer who has not allowed anything yet.
        own_events: Whether events of ours stand beside the published ones.
        ends_claimed: Whether anybody but the provider can end a job that it claimed and let lie.
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
        """Return the seconds that a customer pays of those that a provider reports of a job that
        ran.
        """
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

# Runs a test that uses the fixture ``chain`` on both.
on_both = pytest.mark.parametrize("generation", list(GENERATIONS), indirect=True)

# Runs it on ours while JobRepository still has an admin.
on_unsealed = pytest.mark.parametrize("generation", ["unsealed"], indirect=True)
