# SPDX-License-Identifier: Apache-2.0
"""The submitter submits the supervisor's claimed jobs to Slurm, several at once.

Submissions run in the background. So the next ticks claim and settle other jobs in the meantime.

Rule 1: the journal records a submission before it starts, and its result afterwards.
Rule 2: a failure of one job does not delay other jobs. Later ticks try failed jobs last.
Rule 3: if Slurm or the source of the scripts does not answer, the remaining jobs of a tick are
planned again. So a service that hangs causes one timeout per thread, not one timeout per job.

A customer's gate is open if jobs of the customer can run on the cluster.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import structlog

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.supervisor.actions import Submit
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry
from gridstead.domain.supervisor.submission import Gate, GridUser, Submission
from gridstead.errors import GridsteadError, ScriptUnavailable, SubmitRejected, Transient
from gridstead.ports import Clock, Scheduler, ScriptSource

log = structlog.get_logger()

GATE_CACHE_S = 60


class Submitter:
    """Submits jobs to Slurm.

    Args:
        clock: Wall time.
        scheduler: Slurm.
        scripts: The source of the scripts.
        write_journal: Stores journal entries before it returns. It is called from several threads.
        failpoint: Called with the name of each point at which a crash test can kill the process.
        threads: How many submissions run in parallel. With 1, they do not run in the background.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        scheduler: Scheduler,
        scripts: ScriptSource,
        write_journal: Callable[[Iterable[JournalEntry]], None],
        failpoint: Callable[[str], None],
        threads: int,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._scripts = scripts
        self._write_journal = write_journal
        self._failpoint = failpoint
        self._pool: ThreadPoolExecutor | None = None
        if threads > 1:
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="submitter")
        # The time of the check (Unix seconds) and the gate, by customer.
        self._open_gates: dict[str, tuple[int, Gate]] = {}
        # The submissions that have not ended, or whose end ``jobs_in_progress`` has not seen.
        self._futures: dict[JobKey, Future[None]] = {}
        self._failure_numbers = itertools.count(1)
        # The sequence number of the last failure, by job.
        self._last_failures: dict[JobKey, int] = {}

    def jobs_in_progress(self) -> frozenset[JobKey]:
        """Return the jobs whose submission has not ended.

        Raises:
            Exception: The exception of a submission that failed because of a bug.
        """
        for job_key, future in list(self._futures.items()):
            if future.done():
                del self._futures[job_key]
                future.result()
        return frozenset(self._futures)

    def close(self) -> None:
        """Drop the submissions that have not started, and wait for the others."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def submit(self, actions: Sequence[Submit]) -> None:
        """Start to submit the jobs of the customers whose gate is open.

        None of the jobs may be in progress. A failure of a submission is logged. The journal then
        has no result of the submission, so a later tick plans the job again.
        """
        job_keys = {action.job.job_key for action in actions}
        for job_key in self._last_failures.keys() - job_keys - self._futures.keys():
            del self._last_failures[job_key]
        ordered_actions = sorted(actions, key=self._last_failure_number)
        admitted_actions = self._admit(ordered_actions)
        stop = threading.Event()
        if self._pool is None:
            for action, user in admitted_actions:
                self._try_submit(action, user, stop)
            return
        for action, user in admitted_actions:
            future = self._pool.submit(self._try_submit, action, user, stop)
            self._futures[action.job.job_key] = future

    def _last_failure_number(self, action: Submit) -> int:
        """Return the sequence number of the job's last failure. Returns 0 if it has not failed."""
        return self._last_failures.get(action.job.job_key, 0)

    def _admit(self, actions: Sequence[Submit]) -> list[tuple[Submit, GridUser]]:
        """Return the jobs of the customers whose gate is open, each with the customer's account.

        If Slurm does not answer a check, the remaining jobs are left out.
        """
        users: dict[str, GridUser | None] = {}
        admitted_actions = []
        for action in actions:
            address = action.job.customer
            if address not in users:
                try:
                    users[address] = self._find_user(address)
                except Transient as error:
                    _log_failure(error)
                    customer_actions = [other for other in actions if other.job.customer == address]
                    self._defer(customer_actions)
                    break
            user = users[address]
            if user is not None:
                admitted_actions.append((action, user))
        return admitted_actions

    def _defer(self, actions: Iterable[Submit]) -> None:
        """Make these failed jobs wait until all other jobs were tried. So no job starves another.

        Failed jobs are tried in the order of their last failures, oldest first.
        """
        for action in actions:
            self._last_failures[action.job.job_key] = next(self._failure_numbers)

    def _find_user(self, address: str) -> GridUser | None:
        """Return the customer's account. Returns None if the customer's gate is closed.

        An open gate is cached for a minute.

        Raises:
            Transient: If the scheduler did not answer.
        """
        now = self._clock.now()
        checked_at, gate = self._open_gates.get(address, (0, None))
        age_s = now - checked_at  # negative after the clock was set back
        if gate is not None and 0 <= age_s < GATE_CACHE_S:
            return gate.user
        try:
            gate = self._scheduler.check_gate(address)
        except Transient:
            raise
        except GridsteadError as error:
            _log_failure(error)
            return None
        if not gate.is_open:
            log.info("gate_closed", user=address, reason=", ".join(gate.missing))
            return None
        self._open_gates[address] = (now, gate)
        return gate.user

    def _try_submit(self, action: Submit, user: GridUser, stop: threading.Event) -> None:
        """Fetch the script of a job and submit the job.

        Set ``stop`` if Slurm or the source of the scripts does not answer.
        """
        if stop.is_set():
            return
        try:
            self._fetch_and_submit(action, user)
        except GridsteadError as error:
            _log_failure(error)
            self._defer([action])
            if isinstance(error, Transient):
                stop.set()

    def _fetch_and_submit(self, action: Submit, user: GridUser) -> None:
        job = action.job
        try:
            script = self._scripts.fetch(job)
        except ScriptUnavailable as error:
            self._write_entry(job.job_key, EntryKind.SCRIPT_UNAVAILABLE, reason=str(error))
            log.warning("script_unavailable", job_id=job.id, reason=str(error))
            return
        submission = Submission(
            job_key=job.job_key,
            user=user,
            resources=job.resources,
            time_limit_min=action.time_limit_min,
            script=script,
        )
        self._failpoint("before_submit")
        self._write_entry(job.job_key, EntryKind.SUBMIT_INTENDED)
        self._submit_to_slurm(submission)

    def _submit_to_slurm(self, submission: Submission) -> None:
        job_key = submission.job_key
        job_id = job_key.job_id
        try:
            slurm_job_id = self._scheduler.submit(submission)
        except SubmitRejected as error:
            self._write_entry(job_key, EntryKind.SUBMIT_REJECTED, reason=str(error))
            log.warning("submission_rejected", job_id=job_id, reason=str(error))
            return
        self._failpoint("submitted")
        self._write_entry(job_key, EntryKind.SUBMITTED, slurm_job_id=slurm_job_id)
        log.info("job_submitted", job_id=job_id, slurm_job_id=slurm_job_id)

    def _write_entry(
        self,
        job_key: JobKey,
        kind: EntryKind,
        *,
        reason: str = "",
        slurm_job_id: int | None = None,
    ) -> None:
        entry = JournalEntry(
            job_key=job_key,
            kind=kind,
            occurred_at=self._clock.now(),
            reason=reason,
            slurm_job_id=slurm_job_id,
        )
        self._write_journal([entry])


def _log_failure(error: GridsteadError) -> None:
    log.warning("action_failed", action="Submit", code=error.code, reason=str(error))
