# SPDX-License-Identifier: Apache-2.0
"""In-memory fakes of the cluster agent's ports.

A port is an interface between the services and the adapters. The docstring of each fake names the
port that the fake implements.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.fakes.scheduler import FakeScheduler

from gridstead.domain.jobs.job import Hardware
from gridstead.domain.slurm.hint import Hint, MungeCredential
from gridstead.domain.supervisor.attempt import (
    AccountingSample,
    Attempt,
    ControllerSample,
    NodeReport,
)
from gridstead.domain.supervisor.submission import GridUser, Submission
from gridstead.errors import AssociationUnknown, NotAllowed


class FakeSlurm:
    """Port Slurm. It passes calls to a FakeScheduler and does not check permissions.

    Attributes:
        knows_associations: If it is false, every submission raises AssociationUnknown.
        limits: For each extension, the Slurm job id and the new time limit in minutes.
    """

    def __init__(self, scheduler: FakeScheduler) -> None:
        self._scheduler = scheduler
        self.limits: list[tuple[int, int]] = []
        self.knows_associations = True

    def submit(self, submission: Submission) -> int:
        if not self.knows_associations:
            raise AssociationUnknown("could not submit job")
        return self._scheduler.submit(submission)

    def find(self, slurm_job_id: int) -> Attempt | None:
        for attempt in self.list_jobs().attempts:
            if attempt.slurm_job_id == slurm_job_id:
                return attempt
        return None

    def cancel(self, slurm_job_id: int) -> None:
        job = self.find(slurm_job_id)
        if job is not None:
            self._scheduler.cancel(slurm_job_id, job_key=job.job_key)

    def extend(self, slurm_job_id: int, *, time_limit_min: int) -> None:
        job = self.find(slurm_job_id)
        if job is not None:
            self.limits.append((slurm_job_id, time_limit_min))
            self._scheduler.extend(slurm_job_id, job_key=job.job_key, time_limit_min=time_limit_min)

    def list_jobs(self) -> ControllerSample:
        return self._scheduler.list_jobs()

    def list_records(self, names: Iterable[str], *, since: int) -> AccountingSample:
        return self._scheduler.list_records_by_name(names, since=since)

    def hardware(self) -> Hardware:
        return self._scheduler.hardware()

    def free_nodes(self) -> Hardware:
        return self._scheduler.free_nodes()


class FakeAccounts:
    """Port Accounts. A test sets the users and the missing directories.

    Attributes:
        associated: The addresses for which ``associate`` was called, in order.
        reassociated: The addresses for which ``reassociate`` was called, in order.
    """

    def __init__(self, *users: GridUser) -> None:
        self.users = {user.address: user for user in users}
        self.missing: tuple[str, ...] = ()
        self.associated: list[str] = []
        self.reassociated: list[str] = []

    def user(self, address: str) -> GridUser | None:
        return self.users.get(address)

    def missing_directories(self, user: GridUser) -> tuple[str, ...]:
        return self.missing

    def associate(self, address: str) -> None:
        self.associated.append(address)

    def reassociate(self, address: str) -> None:
        self.reassociated.append(address)


class FakeReportStore:
    """Port ReportStore. ``list_after`` does not wait for reports."""

    def __init__(self) -> None:
        self.hints: list[Hint] = []
        self.deleted_before = 0

    def add(self, hints: Iterable[Hint]) -> None:
        self.hints += [hint for hint in hints if hint not in self.hints]

    def list_after(self, sequence: int, *, wait_s: float) -> tuple[NodeReport, ...]:
        reports: list[NodeReport] = []
        later_hints = self.hints[sequence:]
        for report_sequence, hint in enumerate(later_hints, start=sequence + 1):
            report = NodeReport(
                sequence=report_sequence,
                event=hint.event,
                slurm_job_id=hint.slurm_job_id,
                uid=hint.uid,
                occurred_at=hint.occurred_at,
            )
            reports.append(report)
        return tuple(reports)

    def delete(self, *, before: int) -> None:
        self.deleted_before = before


class FakeSpool:
    """Port CompletionSpool. A test writes the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rejected: list[str] = []

    def read_lines(self) -> tuple[str, ...]:
        return tuple(self.lines)

    def remove_lines(self, *, rejected: Iterable[str]) -> None:
        self.rejected += rejected
        self.lines.clear()


class FakeMunge:
    """Port MungeOpener. A valid credential is ``uid lifetime payload`` (lifetime in seconds)."""

    def open(self, credential: bytes) -> MungeCredential:
        uid, _, rest = credential.partition(b" ")
        lifetime_s, _, payload = rest.partition(b" ")
        if not uid.isdigit() or not lifetime_s.isdigit():
            raise NotAllowed("refused a MUNGE credential")
        return MungeCredential(payload=payload, uid=int(uid), ttl_s=int(lifetime_s))
