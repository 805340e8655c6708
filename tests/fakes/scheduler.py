# SPDX-License-Identifier: Apache-2.0
"""Slurm in memory, with faults that a real Slurm cannot produce on demand.

A test starts and ends jobs with the methods ``start`` and ``end``, and moves the clock. The fake
copies these properties of Slurm:

- slurmctld forgets an ended job after MinJobAge.
- slurmdbd receives each change of a job ``dbd_delay_s`` seconds after slurmctld. It receives the
  AdminComment only when the job ends.
- A crash of slurmctld loses the changes of the last seconds before the crash, including the jobs
  that were submitted in these seconds. slurmctld assigns the ids of the lost jobs again. slurmdbd
  keeps the records of the lost jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.supervisor.attempt import (
    END_STATES,
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
    parse_base_state,
)
from gridstead.domain.supervisor.submission import Gate, GridUser, Submission
from gridstead.errors import SchedulerUnavailable, SubmitRejected
from gridstead.ports import Clock

MIN_JOB_AGE_S = 300
SAVE_MAX_WAIT_S = 5
FIRST_UID = 200001
GID = 100000
EXIT_SIGTERM = 15


class Change(NamedTuple):
    """The time at which a daemon stores a change (Unix seconds), and the job after it."""

    stored_at: int
    attempt: Attempt


class FakeScheduler:
    """A Slurm with a clock and jobs that the test controls.

    Attributes:
        submissions: The queued submissions, in order.
        dbd_delay_s: Seconds until slurmdbd receives a change.
        down: While ``down`` is true, every call raises SchedulerUnavailable and has no effect.
        reject: The reason with which every submission is rejected. If it is empty, no submission
            is rejected.
        reject_leaves_record: Whether a rejected job has a FAILED record without a start time. Slurm
            writes such a record if no node can ever run the job.
        start_before_cancel: Whether an attempt that is still in the queue starts just before a
            cancellation reaches it.
        lose_cancellations: The number of cancellations, from the next one on, that raise
            SchedulerUnavailable and have no effect.
        lose_answers: The number of submissions, from the next one on, that are queued although
            ``submit`` raises SchedulerUnavailable.
        users: The users of the host, by address.
        resolve_all: Whether ``check_gate`` creates a missing user.
        missing: The objects that ``check_gate`` reports as missing, by address.
    """

    def __init__(self, clock: Clock, *, hardware: Hardware | None = None) -> None:
        self._clock = clock
        self._hardware = hardware or Hardware(
            gpus_per_node=(0, 0), cpus_per_node=(64, 64), memory_per_node_mb=(4096, 4096)
        )
        # The changes in slurmctld, by Slurm job id.
        self._slurmctld_changes: dict[int, list[Change]] = {}
        self._slurmdbd_changes: list[Change] = []
        self._next_id = 1
        self.submissions: list[Submission] = []
        self.dbd_delay_s = 0
        self.down = False
        self.reject = ""
        self.reject_leaves_record = False
        self.start_before_cancel = False
        self.lose_cancellations = 0
        self.lose_answers = 0
        self.resolve_all = True
        self.users: dict[str, GridUser] = {}
        self.missing: dict[str, tuple[str, ...]] = {}
        self._resources: dict[int, Resources] = {}  # by Slurm job id

    # Port Scheduler.

    def submit(self, submission: Submission) -> int:
        self._raise_if_down()
        if self.reject and not self.reject_leaves_record:
            raise SubmitRejected("could not submit job", detail=self.reject)
        slurm_job_id = self._next_id
        self._next_id += 1
        if self.reject:
            self._queue(slurm_job_id, submission)
            self.end(slurm_job_id, "FAILED", exit_code=1 << 8)  # wait status of exit code 1
            raise SubmitRejected("could not submit job", detail=self.reject)
        self.submissions.append(submission)
        self._queue(slurm_job_id, submission)
        if self.lose_answers:
            self.lose_answers -= 1
            raise SchedulerUnavailable("could not submit job", detail="the answer was lost")
        return slurm_job_id

    def cancel(self, slurm_job_id: int, *, job_key: JobKey) -> None:
        self._raise_if_down()
        attempt = self._find(slurm_job_id, job_key)
        if attempt is not None and self.start_before_cancel and not attempt.has_started:
            self.start(slurm_job_id)
            attempt = self.attempt(slurm_job_id)
        if self.lose_cancellations:
            self.lose_cancellations -= 1
            raise SchedulerUnavailable("could not cancel job", detail="the request was lost")
        if attempt is not None:
            exit_code = EXIT_SIGTERM if attempt.has_started else 0
            self.end(slurm_job_id, "CANCELLED", exit_code=exit_code)

    def extend(self, slurm_job_id: int, *, job_key: JobKey, time_limit_min: int) -> None:
        self._raise_if_down()
        attempt = self._find(slurm_job_id, job_key)
        if attempt is not None and (attempt.time_limit_min or 0) < time_limit_min:
            self._store(replace(attempt, time_limit_min=time_limit_min))

    def list_jobs(self) -> ControllerSample:
        self._raise_if_down()
        now = self._clock.now()
        attempts: list[Attempt] = []
        for changes in self._slurmctld_changes.values():
            attempt = changes[-1].attempt
            if attempt.ended_at is None or now - attempt.ended_at < MIN_JOB_AGE_S:
                attempts.append(attempt)
        return ControllerSample(taken_at=now, attempts=tuple(attempts))

    def list_records(self, job_ids: Iterable[JobId], *, since: int) -> AccountingSample:
        return self.list_records_by_name([job_id.slurm_job_name for job_id in job_ids], since=since)

    def list_records_by_name(self, names: Iterable[str], *, since: int) -> AccountingSample:
        """Return slurmdbd's records of the jobs with these names, like ``Slurm.list_records``."""
        self._raise_if_down()
        now = self._clock.now()
        job_names = set(names)
        rows: dict[tuple[int, int], Attempt] = {}
        for stored_at, attempt in self._slurmdbd_changes:
            if stored_at <= now and attempt.name in job_names and attempt.submitted_at >= since:
                rows[attempt.slurm_job_id, attempt.submitted_at] = _as_slurmdbd_record(attempt)
        is_complete = all(change.stored_at <= now for change in self._slurmdbd_changes)
        return AccountingSample(
            taken_at=now, is_complete=is_complete, attempts=tuple(rows.values())
        )

    def check_gate(self, address: str) -> Gate:
        self._raise_if_down()
        if self.resolve_all and address not in self.users:
            self.users[address] = GridUser(
                address=address, uid=FIRST_UID + len(self.users), gid=GID
            )
        user = self.users.get(address)
        missing_directories = self.missing.get(address, ())
        if user is None:
            missing_directories = (f"user {address} does not resolve", *missing_directories)
        return Gate(user=user, missing=missing_directories)

    def hardware(self) -> Hardware:
        self._raise_if_down()
        return self._hardware

    def free_nodes(self) -> Hardware:
        """Return the nodes without the CPUs of running jobs, taken from the first nodes."""
        self._raise_if_down()
        used_cpus = sum(map(self._used_cpus, self._slurmctld_changes))
        free_cpus = []
        for cpus in self._hardware.cpus_per_node:
            used_on_node = min(cpus, used_cpus)
            used_cpus -= used_on_node
            free_cpus.append(cpus - used_on_node)
        return replace(self._hardware, cpus_per_node=tuple(free_cpus))

    def _used_cpus(self, slurm_job_id: int) -> int:
        attempt = self.attempt(slurm_job_id)
        resources = self._resources.get(slurm_job_id)
        return resources.cpus if resources and attempt.is_alive and attempt.has_started else 0

    # Methods that a test calls.

    def start(self, slurm_job_id: int) -> None:
        """Start a queued job now."""
        queued_attempt = self.attempt(slurm_job_id)
        self._store(replace(queued_attempt, state="RUNNING", started_at=self._clock.now()))

    def end(
        self,
        slurm_job_id: int,
        state: str = "COMPLETED",
        *,
        exit_code: int = 0,
        suspended_s: int = 0,
    ) -> None:
        """End a job now. ``state`` must be an end state of Slurm.

        A queued job ends without a start time.
        """
        assert parse_base_state(state, source="test") in END_STATES
        ended_attempt = replace(self.attempt(slurm_job_id), state=state, ended_at=self._clock.now())
        self._store(replace(ended_attempt, exit_code=exit_code, suspended_s=suspended_s))

    def rename(self, slurm_job_id: int, name: str) -> None:
        """Change the job's name, as the job's user may do."""
        self._store(replace(self.attempt(slurm_job_id), name=name))

    def crash(self) -> None:
        """Kill slurmctld and start it again.

        The changes of the last SAVE_MAX_WAIT_S are lost, including the jobs queued in that time.
        """
        saved_until = self._clock.now() - SAVE_MAX_WAIT_S
        for slurm_job_id, changes in list(self._slurmctld_changes.items()):
            saved_changes = [change for change in changes if change.stored_at <= saved_until]
            if saved_changes:
                self._slurmctld_changes[slurm_job_id] = saved_changes
            else:
                del self._slurmctld_changes[slurm_job_id]
                self._next_id = min(self._next_id, slurm_job_id)

    def queue_foreign_job(self, *, name: str, job_key: JobKey | None, user: str) -> int:
        """Queue a job that the grid did not submit."""
        slurm_job_id = self._next_id
        self._next_id += 1
        now = self._clock.now()
        job = Attempt(
            slurm_job_id=slurm_job_id,
            name=name,
            job_key=job_key,
            user=user,
            state="PENDING",
            submitted_at=now,
        )
        self._store(job)
        return slurm_job_id

    def attempt(self, slurm_job_id: int) -> Attempt:
        """Return a job as slurmctld currently knows it."""
        return self._slurmctld_changes[slurm_job_id][-1].attempt

    def attempts(self, *, where: Callable[[Attempt], bool] = lambda _: True) -> tuple[Attempt, ...]:
        """Return the jobs that slurmctld knows and for which ``where`` is true, by Slurm job id."""
        attempts: list[Attempt] = []
        for slurm_job_id in sorted(self._slurmctld_changes):
            attempt = self.attempt(slurm_job_id)
            if where(attempt):
                attempts.append(attempt)
        return tuple(attempts)

    def _raise_if_down(self) -> None:
        if self.down:
            raise SchedulerUnavailable("could not reach Slurm", detail="the fake is down")

    def _queue(self, slurm_job_id: int, submission: Submission) -> None:
        self._resources[slurm_job_id] = submission.resources
        self._store(
            Attempt(
                slurm_job_id=slurm_job_id,
                name=submission.job_key.job_id.slurm_job_name,
                job_key=submission.job_key,
                user=submission.user.address,
                uid=submission.user.uid,
                state="PENDING",
                submitted_at=self._clock.now(),
                time_limit_min=submission.time_limit_min,
            )
        )

    def _find(self, slurm_job_id: int, job_key: JobKey) -> Attempt | None:
        """Return the job with this id and job key if it has not ended, else None."""
        if slurm_job_id not in self._slurmctld_changes:
            return None
        attempt = self.attempt(slurm_job_id)
        if attempt.job_key != job_key or not attempt.is_alive:
            return None
        return attempt

    def _store(self, attempt: Attempt) -> None:
        """Store a job's new state in slurmctld now, and in slurmdbd after ``dbd_delay_s``."""
        now = self._clock.now()
        changes = self._slurmctld_changes.setdefault(attempt.slurm_job_id, [])
        changes.append(Change(now, attempt))
        self._slurmdbd_changes.append(Change(now + self.dbd_delay_s, attempt))


def _as_slurmdbd_record(attempt: Attempt) -> Attempt:
    """Return a job as slurmdbd records it: no time limit, and a job key only after its end."""
    job_key = None if attempt.is_alive else attempt.job_key
    return replace(attempt, time_limit_min=None, job_key=job_key)


class FakeReports:
    """Port Reports. A test adds the reports. ``pull`` returns at most ``batch_size`` reports."""

    def __init__(self) -> None:
        self._reports: list[NodeReport] = []
        self.batch_size = 1000

    def pull(self, *, after: int, wait_s: float) -> tuple[NodeReport, ...]:
        later_reports = [report for report in self._reports if report.sequence > after]
        return tuple(later_reports[: self.batch_size])

    def add(self, event: str, *, slurm_job_id: int, uid: int, occurred_at: int) -> None:
        """Add a report of a node or of slurmctld."""
        sequence = len(self._reports) + 1
        self._reports.append(
            NodeReport(
                sequence=sequence,
                event=event,
                slurm_job_id=slurm_job_id,
                uid=uid,
                occurred_at=occurred_at,
            )
        )
