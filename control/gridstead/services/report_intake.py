# SPDX-License-Identifier: Apache-2.0
"""Takes in what plugins say, for the cluster agent: datagrams of nodes and the job completion spool.

Nothing here is ever answered, and nothing that is wrong with a report stops anything but the report.
"""

from __future__ import annotations

import structlog

from gridstead.domain.hint import Hint, RateLimit, admit, parse_completion, parse_report
from gridstead.errors import NotAllowed, SchedulerUnavailable, UnexpectedOutput
from gridstead.ports import Clock, CompletionSpool, ReportStore, Seal

KEEP_S = 86_400
FORGET_EVERY_S = 3_600
RATE_PER_S = 500.0
BURST = 2_000.0

log = structlog.get_logger()


class ReportIntake:
    """Stores the reports that may pass.

    Args:
        reports: Where they go.
        seal: Opens datagrams.
        spool: Where the job completion plugin writes; None when it is not read.
        sources: Addresses that nodes send from.
        clock: Wall time.
    """

    def __init__(
        self,
        *,
        reports: ReportStore,
        seal: Seal,
        spool: CompletionSpool | None,
        sources: frozenset[str],
        clock: Clock,
    ) -> None:
        self._reports = reports
        self._seal = seal
        self._spool = spool
        self._sources = sources
        self._clock = clock
        self._rate = RateLimit(per_second=RATE_PER_S, burst=BURST)
        self._forget_at = 0

    def receive(self, datagram: bytes, source: str) -> None:
        """Store the report that a datagram holds if its sender, its seal and the rate allow it."""
        if source not in self._sources or not self._rate.allows(self._clock.now()):
            log.debug("report_dropped", reason="source or rate", source=source)
            return
        try:
            hint = parse_report(admit(self._seal.open(datagram)))
        except (NotAllowed, UnexpectedOutput, SchedulerUnavailable) as error:
            log.warning("report_dropped", reason=str(error), source=source)
            return
        if hint is not None:
            self._reports.add([hint])

    def tick(self) -> None:
        """Store what the spool has got since the last tick; now and then forget what is older than a day."""
        if self._spool is not None:
            self._read(self._spool)
        now = self._clock.now()
        if now >= self._forget_at:
            self._reports.forget(before=now - KEEP_S)
            self._forget_at = now + FORGET_EVERY_S

    def _read(self, spool: CompletionSpool) -> None:
        lines = spool.take()
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
        spool.done(rejected=rejected)
        if rejected:
            log.warning("completion_records_rejected", count=len(rejected))
