# SPDX-License-Identifier: Apache-2.0
"""The clusters on which the contract tests of port Scheduler run: a fake cluster and a real one.

An *attempt* is one Slurm job that runs a job of the grid. The *job key* identifies the job of the
grid. slurmctld lists current attempts, and slurmdbd has records of all attempts.
"""

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
    """A cluster: the scheduler under test, and a user who can submit jobs."""

    scheduler: Scheduler
    user: GridUser

    def new_submission(
        self, script="exit 0", *, tasks=1, memory_mb=1, minutes=5, job_key=None, user=None
    ):
        """Return a submission of a bash script."""
        return Submission(
            job_key=job_key or self.new_job_key(),
            user=user or self.user,
            resources=Resources(gpus=0, tasks=tasks, cpus_per_task=1, memory_per_cpu_mb=memory_mb),
            time_limit_min=minutes,
            script=Script(
                text=f"#!/bin/bash\n{script}\n", environment={"GRIDSTEAD_TEST": "a b\nc=d'\""}
            ),
        )

    def new_job_key(self) -> JobKey:
        """Return the key of a new job."""
        job_id = JobId(
            chain_id=1, contract=f"0x{secrets.token_hex(20)}", number=secrets.randbits(256)
        )
        return JobKey(job_id=job_id, batch_location_hash=secrets.token_hex(8))

    def find(self, slurm_job_id: int, job_key: JobKey) -> Attempt | None:
        """Return the attempt as slurmctld lists it. Return None if slurmctld does not list it."""
        for attempt in self.scheduler.list_jobs().attempts:
            if attempt.slurm_job_id == slurm_job_id and attempt.job_key == job_key:
                return attempt
        return None

    @abstractmethod
    def now(self) -> int:
        """Return the cluster's time in Unix seconds."""

    @abstractmethod
    def wait_until_running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        """Wait until the attempt runs and return it."""

    @abstractmethod
    def wait_until_ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        """Wait until the attempt has ended and return it."""

    @abstractmethod
    def wait_for_records(
        self, job_key: JobKey, *, since: int, count: int = 1
    ) -> tuple[Attempt, ...]:
        """Wait until slurmdbd has this many records of ended attempts, and return the records."""


class FakeCluster(Cluster):
    """The fake scheduler, called directly or through the agent.

    The script of a job does not run. The job ends with the CODE of ``exit CODE`` in its script.
    """

    def __init__(self, *, scheduler: Scheduler, fake: FakeScheduler, clock: FakeClock) -> None:
        self.scheduler = scheduler
        self._fake = fake
        self._clock = clock
        user = fake.check_gate(f"0x{secrets.token_hex(20)}").user
        assert user is not None
        self.user = user

    def now(self) -> int:
        return self._clock.now()

    def wait_until_running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        if self._fake.attempt(slurm_job_id).state == "PENDING":
            self._clock.advance(1)
            self._fake.start(slurm_job_id)
        attempt = self.find(slurm_job_id, job_key)
        assert attempt is not None
        return attempt

    def wait_until_ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        if self._fake.attempt(slurm_job_id).is_alive:
            self.wait_until_running(slurm_job_id, job_key)
            code = self._exit_code(job_key)
            state = "FAILED" if code else "COMPLETED"
            self._clock.advance(2)
            # Slurm reports a wait status, which has the exit code in its second byte.
            self._fake.end(slurm_job_id, state, exit_code=code << 8)
        attempt = self.find(slurm_job_id, job_key)
        assert attempt is not None
        return attempt

    def wait_for_records(
        self, job_key: JobKey, *, since: int, count: int = 1
    ) -> tuple[Attempt, ...]:
        self._clock.advance(self._fake.dbd_delay_s)
        sample = self.scheduler.list_records([job_key.job_id], since=since)
        assert sample.is_complete
        assert len(sample.attempts) == count
        return sample.attempts

    def _exit_code(self, job_key: JobKey) -> int:
        """Return the exit code in the script of a job."""
        for submission in self._fake.submissions:
            if submission.job_key == job_key:
                return int(re.search(r"exit (\d+)", submission.script.text)[1])
        raise ValueError(job_key)


class RealCluster(Cluster):
    """A cluster of the lab, on which jobs run in real time."""

    def __init__(self, scheduler: Scheduler, user: GridUser) -> None:
        self.scheduler = scheduler
        self.user = user

    def now(self) -> int:
        return int(time.time())

    def wait_until_running(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        return self._wait(slurm_job_id, job_key, lambda attempt: attempt.has_started)

    def wait_until_ended(self, slurm_job_id: int, job_key: JobKey) -> Attempt:
        return self._wait(slurm_job_id, job_key, lambda attempt: not attempt.is_alive)

    def wait_for_records(
        self, job_key: JobKey, *, since: int, count: int = 1
    ) -> tuple[Attempt, ...]:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            sample = self.scheduler.list_records([job_key.job_id], since=since)
            records = [record for record in sample.attempts if not record.is_alive]
            if sample.is_complete and len(records) == count:
                return tuple(records)
            assert time.monotonic() < deadline, f"slurmdbd returns {sample}"
            time.sleep(0.3)

    def _wait(self, slurm_job_id, job_key, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            attempt = self.find(slurm_job_id, job_key)
            if attempt is not None and condition(attempt):
                return attempt
            assert time.monotonic() < deadline, f"{slurm_job_id} is {attempt}"
            time.sleep(0.2)
