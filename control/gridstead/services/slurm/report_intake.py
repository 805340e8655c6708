# SPDX-License-Identifier: Apache-2.0
"""Receives the reports of the Slurm plugins for the cluster agent.

Reports arrive in datagrams from nodes, and as lines in the spool of the job completion plugin. The
agent drops invalid reports and never replies to a datagram.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gridstead.domain.slurm.hint import (
    Hint,
    TokenBucket,
    parse_completion,
    parse_report,
    report_of_root,
)
from gridstead.errors import NotAllowed, SchedulerUnavailable, UnexpectedOutput
from gridstead.ports import Clock, CompletionSpool, MungeOpener, ReportStore

RETENTION_S = 86_400
DELETION_INTERVAL_S = 3_600
LOG_INTERVAL_S = 60
# Each node has its own limits. If a job floods the agent with reports, only reports from the nodes
# of this job are dropped.
MAX_RATE_PER_S = 200.0
BURST = 1_000.0

log = structlog.get_logger()


class ReportIntake:
    """Stores valid reports.

    Args:
        reports: The store of reports.
        munge: Decrypts and authenticates datagrams.
        spool: The spool of the job completion plugin. None if the spool is not read.
        sources: The IP addresses of the nodes.
        clock: Wall time.
    """

    def __init__(
        self,
        *,
        reports: ReportStore,
        munge: MungeOpener,
        spool: CompletionSpool | None,
        sources: Iterable[str],
        clock: Clock,
    ) -> None:
        self._reports = reports
        self._munge = munge
        self._spool = spool
        self._clock = clock
        self._buckets = {
            source: TokenBucket(rate_per_s=MAX_RATE_PER_S, burst=BURST) for source in sources
        }
        self._next_deletion_at = 0
        self._drop_count = 0
        self._drop_reason = ""
        self._next_log_at = 0

    def receive(self, datagram: bytes, source: str) -> None:
        """Store a datagram's report, if the sender, the MUNGE credential and the rate are valid."""
        bucket = self._buckets.get(source)
        if bucket is None or not bucket.take(self._clock.now()):
            self._drop(f"{source} is not a known node, or exceeds its rate limit")
            return
        try:
            credential = self._munge.open(datagram)
            hint = parse_report(report_of_root(credential))
        except (NotAllowed, UnexpectedOutput, SchedulerUnavailable) as error:
            self._drop(f"{source}: {error}")
            return
        if hint is not None:
            self._reports.add([hint])

    def tick(self) -> None:
        """Store the new records of the spool. Once an hour, delete reports older than a day."""
        if self._spool is not None:
            self._read_spool(self._spool)
        now = self._clock.now()
        if self._drop_count and now >= self._next_log_at:
            log.warning("reports_dropped", count=self._drop_count, reason=self._drop_reason)
            self._drop_count, self._next_log_at = 0, now + LOG_INTERVAL_S
        if now >= self._next_deletion_at:
            self._reports.delete(before=now - RETENTION_S)
            self._next_deletion_at = now + DELETION_INTERVAL_S

    def _drop(self, reason: str) -> None:
        """Count a dropped report.

        ``tick`` logs the count, so that a flood of reports does not flood the log.
        """
        self._drop_count += 1
        self._drop_reason = reason

    def _read_spool(self, spool: CompletionSpool) -> None:
        lines = spool.read_lines()
        if not lines:
            return
        hints: list[Hint] = []
        rejected_lines: list[str] = []
        for line in lines:
            try:
                hint = parse_completion(line)
            except UnexpectedOutput:
                rejected_lines.append(line)
                continue
            if hint is not None:
                hints.append(hint)
        self._reports.add(hints)
        spool.remove_lines(rejected=rejected_lines)
        if rejected_lines:
            log.warning("completion_records_rejected", count=len(rejected_lines))
