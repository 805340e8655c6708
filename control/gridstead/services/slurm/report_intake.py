# SPDX-License-Identifier: Apache-2.0
"""Receives the reports of the Slurm plugins for the cluster agent.

Reports arrive as datagrams from nodes and in the spool of the job completion plugin. The agent
never replies. An invalid report is dropped and has no other effect.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gridstead.domain.slurm.hint import Hint, RateLimit, admit, parse_completion, parse_report
from gridstead.errors import NotAllowed, SchedulerUnavailable, UnexpectedOutput
from gridstead.ports import Clock, CompletionSpool, MungeOpener, ReportStore

RETENTION_S = 86_400
FORGET_EVERY_S = 3_600
LOG_EVERY_S = 60
RATE_PER_S = 200.0  # per node: a job that floods the agent can only silence its own node
BURST = 1_000.0

log = structlog.get_logger()


class ReportIntake:
    """Stores valid reports.

    Args:
        reports: The store of reports.
        seal: Decrypts and authenticates datagrams.
        spool: Where the job completion plugin writes; None if the spool is not read.
        sources: IP addresses of the nodes.
        clock: Wall time.
    """

    def __init__(
        self,
        *,
        reports: ReportStore,
        seal: MungeOpener,
        spool: CompletionSpool | None,
        sources: Iterable[str],
        clock: Clock,
    ) -> None:
        self._reports = reports
        self._seal = seal
        self._spool = spool
        self._clock = clock
        self._rates = {source: RateLimit(per_second=RATE_PER_S, burst=BURST) for source in sources}
        self._forget_at = 0
        self._dropped = 0
        self._drop_reason = ""
        self._log_at = 0

    def receive(self, datagram: bytes, source: str) -> None:
        """Store the report in a datagram if its sender, its seal and its rate are acceptable."""
        rate = self._rates.get(source)
        if rate is None or not rate.allows(self._clock.now()):
            self._drop(f"{source} is not a known node, or exceeds its rate limit")
            return
        try:
            hint = parse_report(admit(self._seal.open(datagram)))
        except (NotAllowed, UnexpectedOutput, SchedulerUnavailable) as error:
            self._drop(f"{source}: {error}")
            return
        if hint is not None:
            self._reports.add([hint])

    def tick(self) -> None:
        """Store the spool's new records and, once an hour, delete reports older than a day."""
        if self._spool is not None:
            self._read(self._spool)
        now = self._clock.now()
        if self._dropped and now >= self._log_at:
            log.warning("reports_dropped", count=self._dropped, reason=self._drop_reason)
            self._dropped, self._log_at = 0, now + LOG_EVERY_S
        if now >= self._forget_at:
            self._reports.delete(before=now - RETENTION_S)
            self._forget_at = now + FORGET_EVERY_S

    def _drop(self, reason: str) -> None:
        """Count a dropped report.

        ``tick`` logs the count, so that a flood of reports does not flood the log.
        """
        self._dropped += 1
        self._drop_reason = reason

    def _read(self, spool: CompletionSpool) -> None:
        lines = spool.read_lines()
        if not lines:
            return
        hints: list[Hint] = []
        rejected: list[str] = []
        for line in lines:
            try:
                hint = parse_completion(line)
            except UnexpectedOutput:
                rejected.append(line)
                continue
            if hint is not None:
                hints.append(hint)
        self._reports.add(hints)
        spool.remove_lines(rejected=rejected)
        if rejected:
            log.warning("completion_records_rejected", count=len(rejected))
