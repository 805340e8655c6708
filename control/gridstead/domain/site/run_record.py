# SPDX-License-Identifier: Apache-2.0
"""The record of a run on a site: its user, time, options, commit and result. It has no secrets."""

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
        by: User and machine, as ``user@machine``.
        commit: Commit of the checkout. A ``+`` follows it if files differ from the commit. Empty
            if the folder is not a checkout.
        started_at: Start. Unit: s since 1970, UTC.
        ended_at: End. Unit: s since 1970, UTC.
    """

    by: str
    commit: str
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTask:
    """A task on which a run failed."""

    host: str
    task: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run on a site.

    Attributes:
        id: The time of its start and its command. Ids sort by time.
        command: ``apply``, ``verify``, ``plan`` or ``drift``.
        circumstances: Its user, commit and time.
        inventory: The option of the command. None for the inventory in ansible.cfg.
        limit: The option of the command.
        tags: The option of the command.
        outcome: How it ended.
        changed: The tasks that changed something, by host, in the order of the run.
        failed: The tasks on which it failed, one for each failed host, sorted by host.
        waiting: The notified handlers that did not run because the run ended before, by host.
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


def to_record(
    record_id: str,
    command: str,
    order: PlaybookRequest,
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
        inventory=order.inventory,
        limit=order.limit,
        tags=order.tags,
        outcome=run.outcome,
        changed={host: tuple(tasks) for host, tasks in sorted(changed.items())},
        failed=tuple(failed),
        waiting=run.waiting,
    )
