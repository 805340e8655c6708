# SPDX-License-Identifier: Apache-2.0
"""The submitter: takes claimed jobs into Slurm, several at once, for the supervisor.

Rule 1: what is about to be submitted is in the journal before, and what became of it after. Rule 2:
one job's failure does not keep the others back. Rule 3: once a peer does not answer, the rest waits
for the next tick, so that a hanging one costs the supervisor one timeout and not one per job; what
failed goes last then.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from gridstead.domain.actions import Submit
from gridstead.domain.ids import JobKey
from gridstead.domain.journal import EntryKind, JournalEntry
from gridstead.domain.submission import Gate, GridUser, Submission
from gridstead.errors import GridsteadError, ScriptUnavailable, SubmitRejected, Transient
from gridstead.ports import Clock, Scheduler, ScriptSource

log = structlog.get_logger()

GATE_MEMORY_S = 60


class Submitter:
    """Submits jobs.

    Args:
        clock: Wall time.
        scheduler: Slurm.
        scripts: Where scripts are fetched.
        note: Stores journal entries before it returns; called from several threads.
        failpoint: Called with the name of each boundary, for tests that crash there.
        at_once: How many jobs are fetched and submitted side by side.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        scheduler: Scheduler,
        scripts: ScriptSource,
        note: Callable[[Iterable[JournalEntry]], None],
        failpoint: Callable[[str], None],
        at_once: int,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._scripts = scripts
        self._note = note
        self._failpoint = failpoint
        self._pool = (
            ThreadPoolExecutor(at_once, thread_name_prefix="submitter") if at_once > 1 else None
        )
        self._open_gates: dict[str, tuple[int, Gate]] = {}
        self._failures = itertools.count(1)
        self._failed: dict[JobKey, int] = {}

    def submit(self, wanted: Sequence[Submit]) -> None:
        """Submit the jobs whose gate is open; what fails is logged, and planned again as the
        journal says.
        """
        job_keys = {one.job.job_key for one in wanted}
        self._failed = {
            job_key: failure for job_key, failure in self._failed.items() if job_key in job_keys
        }
        ready = self._ready(sorted(wanted, key=lambda one: self._failed.get(one.job.job_key, 0)))
        halted = threading.Event()
        if self._pool is None:
            for one, user in ready:
                self._submit(one, user, halted)
            return
        for future in [self._pool.submit(self._submit, one, user, halted) for one, user in ready]:
            future.result()

    def _ready(self, wanted: Sequence[Submit]) -> list[tuple[Submit, GridUser]]:
        """Return the jobs whose gate is open, up to the first gate that does not answer."""
        users: dict[str, GridUser | None] = {}
        ready = []
        for one in wanted:
            address = one.job.customer
            if address not in users:
                try:
                    users[address] = self._user(address)
                except Transient as error:
                    _tell(error)
                    self._put_last(other for other in wanted if other.job.customer == address)
                    break
            user = users[address]
            if user is not None:
                ready.append((one, user))
        return ready

    def _put_last(self, failed: Iterable[Submit]) -> None:
        """Try these after all others, and the longest untried of the failed first: no job can
        starve another.
        """
        self._failed |= {one.job.job_key: next(self._failures) for one in failed}

    def _user(self, address: str) -> GridUser | None:
        """Return the customer's account, None if it cannot run here now; a yes is remembered for a
        minute.

        Raises:
            Transient: Nobody answered.
        """
        now = self._clock.now()
        asked_at, gate = self._open_gates.get(address, (0, None))
        if gate is not None and 0 <= now - asked_at < GATE_MEMORY_S:  # else the clock was set back
            return gate.user
        try:
            gate = self._scheduler.gate(address)
        except Transient:
            raise
        except GridsteadError as error:
            _tell(error)
            return None
        if not gate.open:
            log.info("gate_closed", user=address, reason=", ".join(gate.missing))
            return None
        self._open_gates[address] = (now, gate)
        return gate.user

    def _submit(self, wanted: Submit, user: GridUser, halted: threading.Event) -> None:
        if halted.is_set():
            return
        try:
            self._fetch_and_queue(wanted, user)
        except GridsteadError as error:
            _tell(error)
            self._put_last([wanted])
            if isinstance(error, Transient):
                halted.set()

    def _fetch_and_queue(self, wanted: Submit, user: GridUser) -> None:
        job = wanted.job
        try:
            script = self._scripts.fetch(job)
        except ScriptUnavailable as error:
            now = self._clock.now()
            self._note(
                [
                    JournalEntry(
                        job_key=job.job_key,
                        kind=EntryKind.SCRIPT_UNAVAILABLE,
                        occurred_at=now,
                        reason=str(error),
                    )
                ]
            )
            return
        submission = Submission(
            job_key=job.job_key,
            user=user,
            resources=job.resources,
            time_limit_min=wanted.time_limit_min,
            script=script,
        )
        self._failpoint("before_submit")
        self._note(
            [
                JournalEntry(
                    job_key=job.job_key,
                    kind=EntryKind.SUBMIT_INTENDED,
                    occurred_at=self._clock.now(),
                )
            ]
        )
        self._queue(submission)

    def _queue(self, submission: Submission) -> None:
        job_key = submission.job_key
        try:
            slurm_job_id = self._scheduler.submit(submission)
        except SubmitRejected as error:
            entry = JournalEntry(
                job_key=job_key,
                kind=EntryKind.SUBMIT_REJECTED,
                occurred_at=self._clock.now(),
                reason=str(error),
            )
            self._note([entry])
            log.warning("submission_rejected", job_id=job_key.job_id.number, reason=str(error))
            return
        self._failpoint("submitted")
        now = self._clock.now()
        self._note(
            [
                JournalEntry(
                    job_key=job_key,
                    kind=EntryKind.SUBMITTED,
                    occurred_at=now,
                    slurm_job_id=slurm_job_id,
                )
            ]
        )
        log.info("job_submitted", job_id=job_key.job_id.number, slurm_job_id=slurm_job_id)


def _tell(error: GridsteadError) -> None:
    log.warning("action_failed", action="Submit", code=error.code, reason=str(error))
