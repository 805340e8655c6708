# SPDX-License-Identifier: Apache-2.0
"""Reads Slurm for the supervisor's snapshot: the jobs, the accounting, the reports, the free nodes.

If a part of Slurm does not answer, this is logged, and the answer of this part is unknown: None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.jobs.job import Block, Hardware, Job
from gridstead.domain.supervisor.attempt import AccountingSample, ControllerSample, NodeReport
from gridstead.errors import Transient, UnexpectedOutput
from gridstead.ports import Accounting, Clock, Reports, Scheduler

log = structlog.get_logger()

REPORT_RETENTION_S = 24 * 3600
ACCOUNTING_MARGIN_S = 3600
FULL_ACCOUNTING_INTERVAL_S = 60


class SlurmSampler:
    """Reads Slurm once per tick. After a restart, all reports are read again.

    Args:
        clock: Wall time.
        scheduler: slurmctld.
        accounting: slurmdbd.
        reports: The reports of Slurm's plugins. None if the access to Slurm gives no reports.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        scheduler: Scheduler,
        accounting: Accounting,
        reports: Reports | None,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._accounting = accounting
        self._report_source = reports
        self._reports: list[NodeReport] = []
        self._report_sequence = 0
        self._last_full_accounting_at = 0

    def sample_slurmctld(self) -> ControllerSample | None:
        """Return the jobs that slurmctld lists. Returns None if slurmctld did not answer.

        The sample gets the time of the request by this host's clock, because slurmctld may answer
        late.
        """
        requested_at = self._clock.now()
        try:
            return replace(self._scheduler.list_jobs(), taken_at=requested_at)
        except (Transient, UnexpectedOutput) as error:
            log.warning("slurm_unanswered", code=error.code, reason=str(error))
            return None

    def free_nodes(self) -> Hardware | None:
        """Return the free nodes. Returns None if slurmctld did not answer.

        Call this after ``sample_slurmctld``. A job that starts between the two calls then counts
        both as waiting and as running, and its resources never count as free.
        """
        try:
            return self._scheduler.free_nodes()
        except (Transient, UnexpectedOutput) as error:
            log.warning("slurm_unanswered", code=error.code, reason=str(error))
            return None

    def sample_slurmdbd(
        self,
        open_job_keys: Iterable[JobKey],
        controller_sample: ControllerSample | None,
        jobs: Mapping[JobId, Job],
        head: Block,
    ) -> AccountingSample | None:
        """Return slurmdbd's records of open jobs. Returns None if slurmdbd did not answer.

        Args:
            open_job_keys: The keys of all open jobs.
            controller_sample: The last sample of slurmctld.
            jobs: Jobs on the chain, by id. A job was not submitted before its request.
            head: The newest block.
        """
        job_keys = self._keys_for_slurmdbd(open_job_keys, controller_sample)
        if not job_keys:
            return AccountingSample(taken_at=self._clock.now(), is_complete=True, attempts=())
        job_ids = {job_key.job_id for job_key in job_keys}
        request_times = [jobs[job_id].submitted_at for job_id in job_ids & jobs.keys()]
        since = min(request_times, default=head.timestamp)
        try:
            return self._accounting.list_records(job_ids, since=since - ACCOUNTING_MARGIN_S)
        except (Transient, UnexpectedOutput) as error:
            log.warning("accounting_unanswered", code=error.code, reason=str(error))
            return None

    def _keys_for_slurmdbd(
        self, open_job_keys: Iterable[JobKey], controller_sample: ControllerSample | None
    ) -> list[JobKey]:
        """Return the keys of the open jobs whose records are requested from slurmdbd.

        Once a minute these are all open jobs: after a crash, slurmctld may list a job as alive
        although it has ended. In the other ticks these are the jobs that slurmctld does not list as
        alive, and the jobs whose end a node has reported.
        """
        now = self._clock.now()
        age_s = now - self._last_full_accounting_at  # negative after the clock was set back
        if not 0 <= age_s < FULL_ACCOUNTING_INTERVAL_S:
            self._last_full_accounting_at = now
            return list(open_job_keys)
        live_job_keys: set[JobKey | None] = set()
        if controller_sample is not None:
            reported_ends = _ended_attempts(self._reports)
            for attempt in controller_sample.attempts:
                has_ended = (attempt.slurm_job_id, attempt.uid) in reported_ends
                if attempt.is_alive and not has_ended:
                    live_job_keys.add(attempt.job_key)
        return [job_key for job_key in open_job_keys if job_key not in live_job_keys]

    def pull_reports(self) -> tuple[NodeReport, ...]:
        """Fetch new reports of Slurm's plugins, and return the reports of the last day.

        If the reports are unavailable, the bills depend only on Slurm.
        """
        if self._report_source is None:
            return ()
        try:
            # One answer contains a limited number of reports. All reports are fetched, because a
            # bill could be too high without the last one.
            while new_reports := self._report_source.pull(after=self._report_sequence, wait_s=0):
                self._reports.extend(new_reports)
                self._report_sequence = max(report.sequence for report in new_reports)
        except Transient as error:
            log.warning("reports_unanswered", code=error.code, reason=str(error))
        oldest_kept_at = self._clock.now() - REPORT_RETENTION_S
        self._reports = [report for report in self._reports if report.occurred_at > oldest_kept_at]
        return tuple(self._reports)


def _ended_attempts(reports: Iterable[NodeReport]) -> set[tuple[int, int]]:
    """Return (Slurm job id, uid) of the attempts whose end a node has reported."""
    return {(report.slurm_job_id, report.uid) for report in reports if report.event == "end"}
