# SPDX-License-Identifier: Apache-2.0
"""Takes in what plugins say, for the cluster agent: datagrams of nodes and the job completion
spool.

Nothing here is ever answered, and nothing that is wrong with a report stops anything but the
report.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gridstead.domain.hint import Hint, RateLimit, admit, parse_completion, parse_report
from gridstead.errors import NotAllowed, SchedulerUnavailable, UnexpectedOutput
from gridstead.ports import Clock, CompletionSpool, ReportSeal, ReportStore

KEEP_S = 86_400
FORGET_EVERY_S = 3_600
TELL_EVERY_S = 60
RATE_PER_S = 200.0  # of one node: a job that floods silences its own node at most
BURST = 1_000.0

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
        seal: ReportSeal,
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
        self._tell_at = 0

    def receive(self, datagram: bytes, source: str) -> None:
        """Store the report that a datagram holds if its sender, its seal and the rate allow it."""
        rate = self._rates.get(source)
        if rate is None or not rate.allows(self._clock.now()):
            self._drop(f"{source} may not report, or not so fast")
            return
        try:
            hint = parse_report(admit(self._seal.open(datagram)))
        except (NotAllowed, UnexpectedOutput, SchedulerUnavailable) as error:
            self._drop(f"{source}: {error}")
            return
        if hint is not None:
            self._reports.add([hint])

    def tick(self) -> None:
        """Store what the spool has got since the last tick; now and then forget what is older than
        a day.
        """
        if self._spool is not None:
            self._read(self._spool)
        now = self._clock.now()
        if self._dropped and now >= self._tell_at:
            log.warning("reports_dropped", count=self._dropped, reason=self._drop_reason)
            self._dropped, self._tell_at = 0, now + TELL_EVERY_S
        if now >= self._forget_at:
            self._reports.forget(before=now - KEEP_S)
            self._forget_at = now + FORGET_EVERY_S

    def _drop(self, reason: str) -> None:
        """Count a report that may not pass; a flood of them must not flood the log."""
        self._dropped += 1
        self._drop_reason = reason

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
