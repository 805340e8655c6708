# SPDX-License-Identifier: Apache-2.0
"""The events of a playbook run, and the changes, effects and plans that are computed from them.

An effect is what a change causes: a daemon restarts, reloads or is reconfigured, or a node drains.
Effects are read from the names of handlers. The first word of a handler's name is a verb of
``VERBS``, and the rest is the object. In check mode Ansible changes nothing, and the events
describe what would change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class TaskOutcome(StrEnum):
    """How a task ended on a host."""

    OK = "ok"
    CHANGED = "changed"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Verb(StrEnum):
    """The verb of an effect."""

    START = "start"
    RECONFIGURE = "reconfigure"
    RELOAD = "reload"
    RESTART = "restart"
    REMOUNT = "remount"
    STOP = "stop"
    DRAIN = "drain"


# The first words of the names of handlers. A handler whose verb is None has no effect: for example,
# it checks, records or waits.
VERBS: Mapping[str, Verb | None] = {
    "Check": None,
    "Drain": Verb.DRAIN,
    "Keep": None,
    "Look": None,
    "Record": None,
    "Remount": Verb.REMOUNT,
    "Remove": None,
    "Reconfigure": Verb.RECONFIGURE,
    "Reload": Verb.RELOAD,
    "Restart": Verb.RESTART,
    "Start": Verb.START,
    "Stop": Verb.STOP,
    "Wait": None,
}

# Effects that end the jobs on a host, because the jobs lose their open files.
VERBS_THAT_END_JOBS = frozenset({Verb.REMOUNT, Verb.STOP})

# The effect of each state that a task may request of a unit.
VERB_OF_UNIT_STATE: Mapping[str, Verb] = {
    "reloaded": Verb.RELOAD,
    "restarted": Verb.RESTART,
    "started": Verb.START,
    "stopped": Verb.STOP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a play.

    Attributes:
        name: The name of the task in the playbook, without the role.
        role: The role of the task. Empty for a task of the play itself.
        is_handler: Whether the task is a handler.
    """

    name: str
    role: str = ""
    is_handler: bool = False

    def __str__(self) -> str:
        return f"{self.role}: {self.name}" if self.role else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayStarted:
    """A play started. All later tasks, until the next play starts, belong to this play."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """A task started. All hosts have finished the previous task."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinished:
    """A task finished on a host.

    Attributes:
        host: The name of the host in the inventory.
        task: The task.
        outcome: How the task ended.
        targets: The files, units, packages or other objects in the result of the task. Sorted.
        unit_state: The state that the task requested of units, for example ``started``. Empty if
            the task requested no state.
        diff: The diff of the changed files. Empty if no diff was requested, or if the task has
            ``no_log``.
        message: Why the task failed.
    """

    host: str
    task: Task
    outcome: TaskOutcome
    targets: tuple[str, ...] = ()
    unit_state: str = ""
    diff: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedText:
    """A line that Ansible prints outside of tasks, for example why a playbook cannot be read."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run has ended. An interrupted run may have no such event.

    Attributes:
        failed: The hosts that were unreachable, or on which a task failed and was not rescued.
    """

    failed: frozenset[str]


PlaybookEvent = PlayStarted | TaskStarted | HostFinished | PrintedText | RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRequest:
    """A playbook to run, with its options.

    Attributes:
        playbook: The path of the playbook, relative to the checkout.
        inventory: The inventory. None for the inventory in ansible.cfg.
        limit: A pattern of hosts. None for all hosts.
        tags: Tags of tasks, separated by commas. None for all tasks.
        check: Whether to run in check mode with diffs.
    """

    playbook: str
    inventory: str | None = None
    limit: str | None = None
    tags: str | None = None
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRun:
    """The result of a run.

    Attributes:
        outcome: How the run ended.
        events: All events, in order.
        waiting: The handlers that were notified but did not run, because the run ended earlier. By
            host, sorted.
        report: The JSON report that the playbook wrote. None if it wrote no report.
    """

    outcome: RunOutcome
    events: tuple[PlaybookEvent, ...]
    waiting: Mapping[str, tuple[str, ...]]
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a run does, or would do, to a daemon or a node.

    Attributes:
        host: The host.
        verb: The verb of the effect.
        to: The object of the effect: the rest of the handler's name, or the name of a unit.
    """

    host: str
    verb: Verb
    to: str

    def __str__(self) -> str:
        return f"{self.verb} {self.to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A running Slurm job.

    Attributes:
        id: The Slurm job id.
        user: The user of the job.
        ends_at: The end of the time limit, as Slurm prints it.
        nodes: The names of the nodes of the job.
    """

    id: str
    user: str
    ends_at: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """What a run would change now.

    Attributes:
        changes: The tasks, other than handlers, that would change something, in the order of the
            run.
        effects: The effects of these changes, without duplicates.
        nodes_to_drain: The nodes that would drain, or that must be drained first because an effect
            would end their jobs. Sorted.
        jobs: The running jobs on each host with an effect, by host. None if Slurm did not answer.
    """

    changes: tuple[HostFinished, ...]
    effects: tuple[Effect, ...]
    nodes_to_drain: tuple[str, ...]
    jobs: Mapping[str, tuple[RunningJob, ...]] | None


def changes(events: Iterable[PlaybookEvent]) -> tuple[HostFinished, ...]:
    """Return the tasks, other than handlers, that changed something, in the order of the run."""
    return tuple(event for event in _changed(events) if not event.task.is_handler)


def count_changes(events: Iterable[PlaybookEvent]) -> dict[str, int]:
    """Return how many tasks changed something on each host. Handlers do not count.

    The hosts are sorted. A host without changes has the number 0.
    """
    counts: dict[str, int] = {}
    for event in _finished(events):
        counts.setdefault(event.host, 0)
        if event.outcome is TaskOutcome.CHANGED and not event.task.is_handler:
            counts[event.host] += 1
    return dict(sorted(counts.items()))


def failures(events: Iterable[PlaybookEvent]) -> tuple[HostFinished, ...]:
    """Return the last failure of each failed host, sorted by host.

    A host whose failures were all rescued has not failed.
    """
    all_events = tuple(events)
    failed_hosts: set[str] = set()
    for event in all_events:
        if isinstance(event, RunEnded):
            failed_hosts |= event.failed
    last_failures: dict[str, HostFinished] = {}
    for event in _finished(all_events):
        is_failure = event.outcome in {TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}
        if is_failure and event.host in failed_hosts:
            last_failures[event.host] = event
    return tuple(last_failures[host] for host in sorted(last_failures))


def effects(events: Iterable[PlaybookEvent]) -> tuple[Effect, ...]:
    """Return the effects of the changes, without duplicates, in the order of the run."""
    unique_effects: dict[Effect, None] = {}
    for event in _changed(events):
        unique_effects |= dict.fromkeys(_effects_of(event))
    return tuple(unique_effects)


def plan_site(events: Iterable[PlaybookEvent], jobs: Iterable[RunningJob] | None) -> SitePlan:
    """Return the plan that is computed from a run in check mode.

    Args:
        events: All events of the run.
        jobs: The running jobs. None if Slurm did not answer.
    """
    all_events = tuple(events)
    all_effects = effects(all_events)
    hosts = sorted({effect.host for effect in all_effects})
    jobs_by_host = None if jobs is None else _jobs_by_host(hosts, tuple(jobs))
    nodes_to_drain = {
        effect.host for effect in all_effects if _requires_drain(effect, jobs_by_host)
    }
    return SitePlan(
        changes=changes(all_events),
        effects=all_effects,
        nodes_to_drain=tuple(sorted(nodes_to_drain)),
        jobs=jobs_by_host,
    )


def _finished(events: Iterable[PlaybookEvent]) -> list[HostFinished]:
    return [event for event in events if isinstance(event, HostFinished)]


def _changed(events: Iterable[PlaybookEvent]) -> list[HostFinished]:
    return [event for event in _finished(events) if event.outcome is TaskOutcome.CHANGED]


def _effects_of(event: HostFinished) -> list[Effect]:
    """Return the effects of a changed task.

    The name of a handler determines its effect. The effect of any other task is determined by the
    state that the task requests of units.
    """
    objects: tuple[str, ...] = event.targets
    verb = VERB_OF_UNIT_STATE.get(event.unit_state)
    if event.task.is_handler:
        first_word, _, rest = event.task.name.partition(" ")
        verb = VERBS.get(first_word)
        objects = (rest,)
    if verb is None:
        return []
    return [Effect(host=event.host, verb=verb, to=name) for name in objects]


def _jobs_by_host(
    hosts: Iterable[str], jobs: tuple[RunningJob, ...]
) -> dict[str, tuple[RunningJob, ...]]:
    """Return the running jobs on each host."""
    by_host = {}
    for host in hosts:
        by_host[host] = tuple(job for job in jobs if host in job.nodes)
    return by_host


def _requires_drain(
    effect: Effect, jobs_by_host: Mapping[str, tuple[RunningJob, ...]] | None
) -> bool:
    """Return whether an effect drains its node, or requires that the node is drained first."""
    if effect.verb is Verb.DRAIN:
        return True
    has_jobs = jobs_by_host is not None and bool(jobs_by_host[effect.host])
    return has_jobs and effect.verb in VERBS_THAT_END_JOBS
