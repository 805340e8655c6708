# SPDX-License-Identifier: Apache-2.0
"""The record of a playbook run: user, time, options, commit and result. It contains no secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.site.playbook import (
    PlaybookRequest,
    PlaybookRun,
    RunOutcome,
    changes,
    failures,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The user, the commit and the time of a run.

    Attributes:
        by: The user and the machine, as ``user@machine``.
        commit: The commit of the checkout, followed by ``+`` if files differ from the commit. Empty
            if the folder is not in a git repository.
        started_at: The start of the run. Unit: Unix seconds.
        ended_at: The end of the run. Unit: Unix seconds.
    """

    by: str
    commit: str
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTask:
    """A task that failed on a host."""

    host: str
    task: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a playbook run.

    Attributes:
        id: The time of the start and the command. Ids sort by time.
        command: ``apply``, ``verify``, ``plan`` or ``drift``.
        circumstances: The user, commit and time.
        inventory: The option ``--inventory``. None for the inventory in ansible.cfg.
        limit: The option ``--limit``.
        tags: The option ``--tags``.
        outcome: How the run ended.
        changed: The tasks that changed something, by host, in the order of the run.
        failed: The last failed task of each failed host, sorted by host.
        waiting: The handlers that were notified but did not run, by host.
    """

    id: str
    command: str
    circumstances: Circumstances
    inventory: str | None
    limit: str | None
    tags: str | None
    outcome: RunOutcome
    changed: Mapping[str, tuple[str, ...]]
    failed: tuple[FailedTask, ...]
    waiting: Mapping[str, tuple[str, ...]]


def to_run_record(
    record_id: str,
    command: str,
    request: PlaybookRequest,
    run: PlaybookRun,
    circumstances: Circumstances,
) -> RunRecord:
    """Return the record of a run."""
    changed: dict[str, list[str]] = {}
    for change in changes(run.events):
        changed.setdefault(change.host, []).append(str(change.task))
    failed = []
    for failure in failures(run.events):
        task = FailedTask(host=failure.host, task=str(failure.task), message=failure.message)
        failed.append(task)
    return RunRecord(
        id=record_id,
        command=command,
        circumstances=circumstances,
        inventory=request.inventory,
        limit=request.limit,
        tags=request.tags,
        outcome=run.outcome,
        changed={host: tuple(tasks) for host, tasks in sorted(changed.items())},
        failed=tuple(failed),
        waiting=run.waiting,
    )
