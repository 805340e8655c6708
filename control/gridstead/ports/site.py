# SPDX-License-Identifier: Apache-2.0
"""Ports of Ansible's playbooks and of the records of their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gridstead.domain.site.playbook import PlaybookEvent, PlaybookRequest, PlaybookRun
from gridstead.domain.site.run_record import RunRecord


@dataclass(slots=True)
class Stop:
    """A request to stop a run. A signal handler makes it.

    Attributes:
        requests: How often it was made. After the first request the run stops when the current
            task has ended. The second request interrupts the task.
    """

    requests: int = 0

    def request(self) -> None:
        """Request the stop, or request it again."""
        self.requests += 1


class Playbooks(Protocol):
    """The playbooks of a checkout."""

    def run(
        self, order: PlaybookRequest, *, notify: Callable[[PlaybookEvent], None], stop: Stop
    ) -> PlaybookRun:
        """Run a playbook to its end and return the result.

        Args:
            order: What to run.
            notify: Called with each event when it happens. The events of tasks with ``no_log`` are
                omitted; only the result tells whether such a task changed anything.
            stop: The request to stop. It is checked several times a second.

        Guarantee: after return no process of the run is running, and the run has left no files on
        this machine. A process that cannot be killed is reported.
        """
        ...


class DriftMetrics(Protocol):
    """The metrics of how much a site differs from its inventory."""

    def publish(self, tasks: Mapping[str, int] | None, *, checked_at: int) -> None:
        """Replace the published metrics.

        Args:
            tasks: How many tasks would change something, by host. None if the check failed.
            checked_at: When the site was checked. Unit: s since 1970, UTC.

        Raises:
            ConfigError: If the metrics cannot be written.
        """
        ...


class RunRecords(Protocol):
    """Records of runs."""

    def add(self, record: RunRecord) -> None:
        """Store a record that only its owner can read."""
        ...

    def all(self) -> tuple[RunRecord, ...]:
        """Return all records, the newest first.

        Raises:
            UnexpectedOutput: If a record does not have the form that ``add`` writes.
        """
        ...
