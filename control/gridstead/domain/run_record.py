# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a run on a site: who, when, what, from which commit, and what came of it.
No secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridstead.domain.playbook import PlaybookRequest, PlaybookRun, RunOutcome, changes, failures


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """When and by whom something was run, and from what.

    Attributes:
        by: User and machine, as ``user@machine``.
        commit: Commit of the checkout, with ``+`` behind it if files differ from it; empty if it is
            no checkout.
        started_at: Begin. Unit: s since 1970, UTC.
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
        id: Time of its begin and its command; sorts by time.
        command: ``apply``, ``verify``, ``plan`` or ``drift``.
        circumstances: When, who, from what.
        inventory: As given; None: what ansible.cfg says.
        limit: As given.
        tags: As given.
        outcome: How it ended.
        changed: By host, the tasks that changed something, in the order of the run.
        failed: On which tasks it failed, a host each, sorted by host.
        waiting: By host, what was to be restarted or the like and was not, because the run ended
            before.
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
    return RunRecord(
        id=record_id,
        command=command,
        circumstances=circumstances,
        inventory=order.inventory,
        limit=order.limit,
        tags=order.tags,
        outcome=run.outcome,
        changed={host: tuple(tasks) for host, tasks in sorted(changed.items())},
        failed=tuple(
            FailedTask(host=one.host, task=str(one.task), message=one.message)
            for one in failures(run.events)
        ),
        waiting=run.waiting,
    )
