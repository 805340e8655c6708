# SPDX-License-Identifier: Apache-2.0
"""What happened in a simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gridstead.domain.jobs.billing import cost_floor
from gridstead.domain.matching.decisions import Move
from gridstead.services.simulation.workload import SimulatedJob


@dataclass(slots=True)
class JobRun:
    """What happened to a job.

    Attributes:
        job: The job as submitted.
        escrow: What it holds in escrow until it is settled, wei.
        provider: The provider. Empty while the job is not matched.
        price_per_min: The price of one minute of the whole job, wei. 0 while it is not matched, and
            after it ended as PANICKED.
        started_at: Seconds since the start of the simulation. None if it has not started.
        ended_at: Seconds since the start of the simulation. None if it has not ended.
    """

    job: SimulatedJob
    escrow: int
    provider: str = ""
    price_per_min: int = 0
    started_at: int | None = None
    ended_at: int | None = None

    def seconds_run(self, now: int) -> int:
        """Return for how long the job has run so far, seconds."""
        if self.started_at is None:
            return 0
        end = now if self.ended_at is None else self.ended_at
        return end - self.started_at

    def seconds_waited(self, now: int) -> int:
        """Return for how long the job waited, or has waited so far, seconds."""
        start = now if self.started_at is None else self.started_at
        return start - self.job.submitted_at

    def cost(self, now: int) -> int:
        """Return what the job has cost so far, wei."""
        return min(self.escrow, cost_floor(self.seconds_run(now), self.price_per_min))


@dataclass(slots=True)
class SimulationOutcome:
    """The result of a simulation.

    Attributes:
        policy: The name of the policy.
        runs: All submitted jobs, in the order of their submission.
        refused: The number of jobs that each customer could not submit for lack of credits.
        moves: The reservations that became later.
        matches: The number of matches.
        now: The time up to which the simulation ran, seconds since its start.
    """

    policy: str
    runs: list[JobRun] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    moves: list[Move] = field(default_factory=list)
    matches: int = 0
    now: int = 0
