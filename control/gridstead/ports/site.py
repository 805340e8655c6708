# SPDX-License-Identifier: Apache-2.0
"""Ports of Ansible playbooks, of run records, and of the drift metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gridstead.domain.site.playbook import PlaybookEvent, PlaybookRequest, PlaybookRun
from gridstead.domain.site.run_record import RunRecord


@dataclass(slots=True)
class Stop:
    """The requests of the user to stop a run. A signal handler counts them.

    Attributes:
        requests: The number of requests. After the first request, the run stops when the current
            task has ended. The second request interrupts the current task.
    """

    requests: int = 0

    def request(self) -> None:
        """Add a request."""
        self.requests += 1


class Playbooks(Protocol):
    """The playbooks of a checkout."""

    def run(
        self, request: PlaybookRequest, *, notify: Callable[[PlaybookEvent], None], stop: Stop
    ) -> PlaybookRun:
        """Run a playbook to its end and return the result.

        Args:
            request: The playbook and its options.
            notify: Called with each event when it happens. Only the events in the result show
                whether a task with ``no_log`` changed something. The events passed to ``notify``
                do not show this.
            stop: The requests to stop. The adapter reads ``stop`` several times a second.

        Guarantee: after return, no process of the run is running, and the run has left no files on
        this machine. If a process cannot be killed, ``notify`` is called with its pid.
        """
        ...


class DriftMetrics(Protocol):
    """The metrics of the drift between a site and its inventory."""

    def publish(self, task_counts: Mapping[str, int] | None, *, checked_at: int) -> None:
        """Replace the published metrics.

        Args:
            task_counts: The number of tasks that would change something, by host. None if the
                check failed.
            checked_at: When the site was checked. Unit: Unix seconds.

        Raises:
            ConfigError: If the metrics cannot be written.
        """
        ...


class RunRecords(Protocol):
    """The stored records of runs."""

    def add(self, record: RunRecord) -> None:
        """Store a record that only its owner can read."""
        ...

    def all(self) -> tuple[RunRecord, ...]:
        """Return all records, the newest first.

        Raises:
            UnexpectedOutput: If a record does not have the format that ``add`` writes.
        """
        ...
