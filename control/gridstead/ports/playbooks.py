# SPDX-License-Identifier: Apache-2.0
"""Running playbooks, and remembering that they ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gridstead.domain.playbook import PlaybookEvent, PlaybookRequest, PlaybookRun
from gridstead.domain.run_record import RunRecord


@dataclass(slots=True)
class Stop:
    """A wish to end a run, made from a signal handler.

    Attributes:
        wishes: How often it was made. The first lets the current task end, the second interrupts
            it.
    """

    wishes: int = 0

    def wish(self) -> None:
        """Make it, or make it again."""
        self.wishes += 1


class Playbooks(Protocol):
    """The playbooks of a checkout."""

    def run(
        self, order: PlaybookRequest, *, notify: Callable[[PlaybookEvent], None], stop: Stop
    ) -> PlaybookRun:
        """Run a playbook to its end and return what came of it.

        Args:
            order: What to run.
            notify: Called with each event as it comes. Secrets are left out; whether a secret task
                changed anything is known at the end only.
            stop: Looked at several times a second.

        Guarantee: nothing of the run goes on after return, and nothing of it is left on this
        machine; a process that cannot be ended is told.
        """
        ...


class DriftMetrics(Protocol):
    """Where monitoring reads how far a site is from its inventory."""

    def publish(self, tasks: Mapping[str, int] | None, *, checked_at: int) -> None:
        """Replace what was published.

        Args:
            tasks: By host, how many tasks would change something; None if it could not be looked
                at.
            at: When it was looked at. Unit: s since 1970, UTC.

        Raises:
            ConfigError: It cannot be kept there.
        """
        ...


class RunRecords(Protocol):
    """Records of runs."""

    def add(self, record: RunRecord) -> None:
        """Keep a record, readable for its owner alone."""
        ...

    def all(self) -> tuple[RunRecord, ...]:
        """Return all records, the newest first.

        Raises:
            UnexpectedOutput: One is not as ``add`` wrote it.
        """
        ...
