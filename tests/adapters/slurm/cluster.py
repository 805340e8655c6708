# SPDX-License-Identifier: Apache-2.0
"""Clusters for the contract tests of port Scheduler: a scheduler, a user and a clock."""

from __future__ import annotations

import re
import secrets
import time
from abc import ABC, abstractmethod

from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.supervisor.attempt import Attempt
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.ports import Scheduler

TIMEOUT_S = 60


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
        """Return the key of a new job."""
        job_id = JobId(
            chain_id=1, contract=f"0x{secrets.token_hex(20)}", number=secrets.randbits(256)
        )
        return JobKey(job_id=job_id, batch_location_hash=secrets.token_hex(8))

    def find(self, slurm_job_id: int, job_key: JobKey) -> Attempt | None:
        """Return the attempt as slurmctld lists it."""
        jobs = self.scheduler.list_jobs().attempts
        return next(
            (job for job in jobs if job.slurm_job_id == slurm_job_id and job.job_key == job_key),
            None,
        )

    @abstractmethod
    def now(self) -> int:
        """Return the cluster's time in Unix seconds."""

    @abstractmethod
    def running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        """Wait until the attempt runs and return it."""

    @abstractmethod
    def ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        """Wait until the attempt has ended and return it."""

    @abstractmethod
    def accounted(self, job_key: JobKey, *, since: int, rows: int = 1) -> tuple[Attempt, ...]:
        """Wait until slurmdbd is up to date and has this many ended records; return them."""


class FakeCluster(Cluster):
    """The fake scheduler, direct or behind the agent. The script sets the job's exit code."""

    def __init__(self, scheduler: Scheduler, fake: FakeScheduler, clock: FakeClock) -> None:
        self.scheduler = scheduler
        self._fake = fake
        self._clock = clock
        user = fake.check_gate(f"0x{secrets.token_hex(20)}").user
        assert user is not None
        self.user = user

    def now(self) -> int:
        return self._clock.now()

    def running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        if self._fake.attempt(slurm_job_id).state == "PENDING":
            self._clock.advance(1)
            self._fake.start(slurm_job_id)
        attempt = self.find(slurm_job_id, job_key)
        assert attempt is not None
        return attempt

    def ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        if self._fake.attempt(slurm_job_id).is_alive:
            self.running(slurm_job_id, job_key)
            script = next(s for s in self._fake.submissions if s.job_key == job_key).script.text
            code = int(re.search(r"exit (\d+)", script)[1])
            self._clock.advance(2)
            self._fake.end(slurm_job_id, "FAILED" if code else "COMPLETED", exit_code=code << 8)
        attempt = self.find(slurm_job_id, job_key)
        assert attempt is not None
        return attempt

    def accounted(self, job_key: JobKey, *, since: int, rows: int = 1) -> tuple[Attempt, ...]:
        self._clock.advance(self._fake.dbd_delay_s)
        sample = self.scheduler.list_records([job_key.job_id], since=since)
        assert sample.is_complete
        assert len(sample.attempts) == rows
        return sample.attempts


class RealCluster(Cluster):
    """A cluster of the lab, with real time."""

    def __init__(self, scheduler: Scheduler, user: GridUser) -> None:
        self.scheduler = scheduler
        self.user = user

    def now(self) -> int:
        return int(time.time())

    def running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        return self._wait(slurm_job_id, job_key, lambda job: job.has_started)

    def ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        return self._wait(slurm_job_id, job_key, lambda job: not job.is_alive)

    def accounted(self, job_key: JobKey, *, since: int, rows: int = 1) -> tuple[Attempt, ...]:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            sample = self.scheduler.list_records([job_key.job_id], since=since)
            ended = [row for row in sample.attempts if not row.is_alive]
            if sample.is_complete and len(ended) == rows:
                return tuple(ended)
            assert time.monotonic() < deadline, f"slurmdbd has {sample}"
            time.sleep(0.3)

    def _wait(self, slurm_job_id, job_key, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            attempt = self.find(slurm_job_id, job_key)
            if attempt is not None and condition(attempt):
                return attempt
            assert time.monotonic() < deadline, f"{slurm_job_id} is {attempt}"
            time.sleep(0.2)
