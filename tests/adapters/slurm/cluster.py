# SPDX-License-Identifier: Apache-2.0
"""What the contract of port Scheduler is tested on: a way into a cluster, a user there, and the
passing of time.
"""

from __future__ import annotations

import re
import secrets
import time
from abc import ABC, abstractmethod

from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.domain.attempt import Attempt
from gridstead.domain.billing import Resources
from gridstead.domain.ids import JobId, JobKey
from gridstead.domain.submission import GridUser, Script, Submission
from gridstead.ports import Scheduler

PATIENCE_S = 60


class Cluster(ABC):
    """A scheduler under test."""

    scheduler: Scheduler
    user: GridUser

    def submission(
        self, script="exit 0", *, tasks=1, memory_mb=1, minutes=5, job_key=None, user=None
    ):
        return Submission(
            job_key=job_key or self.job_key(),
            user=user or self.user,
            resources=Resources(gpus=0, tasks=tasks, cpus_per_task=1, memory_per_cpu_mb=memory_mb),
            time_limit_min=minutes,
            script=Script(
                text=f"#!/bin/bash\n{script}\n", environment={"GRIDSTEAD_TEST": "a b\nc=d'\""}
            ),
        )

    def job_key(self) -> JobKey:
        """A job that nobody ever saw."""
        job_id = JobId(
            chain_id=1, contract=f"0x{secrets.token_hex(20)}", number=secrets.randbits(256)
        )
        return JobKey(job_id=job_id, batch_location_hash=secrets.token_hex(8))

    def find(self, slurm_job_id: int, job_key: JobKey) -> Attempt | None:
        """The attempt as slurmctld has it."""
        jobs = self.scheduler.live().attempts
        return next(
            (job for job in jobs if job.slurm_job_id == slurm_job_id and job.job_key == job_key),
            None,
        )

    @abstractmethod
    def now(self) -> int:
        """The cluster's time."""

    @abstractmethod
    def running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        """The attempt, once it runs."""

    @abstractmethod
    def ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        """The attempt, once it has ended."""

    @abstractmethod
    def accounted(self, job_key: JobKey, *, since: int, rows: int = 1) -> tuple[Attempt, ...]:
        """The records of a job, once slurmdbd has so many ended ones and is up to date."""


class FakeCluster(Cluster):
    """The fake, or another way to it; the script's first words say what the job does."""

    def __init__(self, scheduler: Scheduler, fake: FakeScheduler, clock: FakeClock) -> None:
        self.scheduler = scheduler
        self._fake = fake
        self._clock = clock
        user = fake.gate(f"0x{secrets.token_hex(20)}").user
        assert user is not None
        self.user = user

    def now(self) -> int:
        return self._clock.now()

    def running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        if self._fake.attempt(slurm_job_id).state == "PENDING":
            self._clock.advance(1)
            self._fake.start(slurm_job_id)
        found = self.find(slurm_job_id, job_key)
        assert found is not None
        return found

    def ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        if self._fake.attempt(slurm_job_id).alive:
            self.running(slurm_job_id, job_key)
            script = next(s for s in self._fake.submissions if s.job_key == job_key).script.text
            code = int(re.search(r"exit (\d+)", script)[1])
            self._clock.advance(2)
            self._fake.end(slurm_job_id, "FAILED" if code else "COMPLETED", exit_code=code << 8)
        found = self.find(slurm_job_id, job_key)
        assert found is not None
        return found

    def accounted(self, job_key: JobKey, *, since: int, rows: int = 1) -> tuple[Attempt, ...]:
        self._clock.advance(self._fake.dbd_delay_s)
        sample = self.scheduler.accounting([job_key.job_id.slurm_name], since=since)
        assert sample.complete
        assert len(sample.attempts) == rows
        return sample.attempts


class RealCluster(Cluster):
    """A lab; time passes by itself."""

    def __init__(self, scheduler: Scheduler, user: GridUser) -> None:
        self.scheduler = scheduler
        self.user = user

    def now(self) -> int:
        return int(time.time())

    def running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        return self._wait(slurm_job_id, job_key, lambda job: job.started)

    def ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        return self._wait(slurm_job_id, job_key, lambda job: not job.alive)

    def accounted(self, job_key: JobKey, *, since: int, rows: int = 1) -> tuple[Attempt, ...]:
        until = time.monotonic() + PATIENCE_S
        while True:
            sample = self.scheduler.accounting([job_key.job_id.slurm_name], since=since)
            ended = [row for row in sample.attempts if not row.alive]
            if sample.complete and len(ended) == rows:
                return tuple(ended)
            assert time.monotonic() < until, f"slurmdbd has {sample}"
            time.sleep(0.3)

    def _wait(self, slurm_job_id, job_key, is_so):
        until = time.monotonic() + PATIENCE_S
        while True:
            found = self.find(slurm_job_id, job_key)
            if found is not None and is_so(found):
                return found
            assert time.monotonic() < until, f"{slurm_job_id} is {found}"
            time.sleep(0.2)
