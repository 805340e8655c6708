# SPDX-License-Identifier: Apache-2.0
"""The events of a playbook's run, and the changes, effects, failures and plan that follow.

An effect is what a change causes: a daemon restarts, reloads or is reconfigured, or a node drains.
The names of the handlers describe the effects. The first word of a handler's name is a verb of
``VERBS``, and the rest is the object. In check mode nothing happens, and the events describe what
would happen.
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
    """The kind of an effect."""

    START = "start"
    RECONFIGURE = "reconfigure"
    RELOAD = "reload"
    RESTART = "restart"
    REMOUNT = "remount"
    STOP = "stop"
    DRAIN = "drain"


# The first words of the names of handlers. Handlers without an effect check, record or wait.
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

# Effects that end the jobs on a host, because their open files or the file server disappear.
ENDS_JOBS = frozenset({Verb.REMOUNT, Verb.STOP})

# The states that a task may request of a unit.
STATES: Mapping[str, Verb] = {
    "reloaded": Verb.RELOAD,
    "restarted": Verb.RESTART,
    "started": Verb.START,
    "stopped": Verb.STOP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a play.

    Attributes:
        name: Its name in the playbook, without its role.
        role: Its role. Empty for a task of the play itself.
        is_handler: Whether it runs only if something changed.
    """

    name: str
    role: str = ""
    is_handler: bool = False

    def __str__(self) -> str:
        return f"{self.role}: {self.name}" if self.role else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayStarted:
    """A play started. The tasks that follow belong to it."""

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
        outcome: How it ended.
        targets: The files, units, packages or other objects that its result names. Sorted.
        unit_state: The state that it requested of units, for example ``started``. Empty for other
            tasks.
        diff: The diff of the files that it changes. Empty if no diff was requested, or if the task
            has ``no_log``.
        message: Why it failed.
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
    """A line of output outside of tasks, for example why a playbook cannot be read."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run has ended. An interrupted run may have no such event.

    Attributes:
        failed: Hosts that were not reached, or on which a task failed without being rescued.
    """

    failed: frozenset[str]


PlaybookEvent = PlayStarted | TaskStarted | HostFinished | PrintedText | RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRequest:
    """A playbook to run, with its options.

    Attributes:
        playbook: File name, relative to the checkout.
        inventory: The inventory. None for the one in ansible.cfg.
        limit: Pattern of the hosts. None for all hosts.
        tags: Tags of the tasks, separated by commas. None for all tasks.
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
        outcome: How it ended.
        events: All events, in order.
        waiting: The notified handlers that did not run because the run ended before, by host.
            Sorted.
        report: The report of the playbook as JSON. None if it has no report, or did not reach it.
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
        verb: The kind of the effect.
        to: The object of the effect, as the role names it.
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
        id: Its Slurm job id.
        user: Its user.
        ends_at: The end of its time limit, as Slurm prints it.
        nodes: The names of its nodes.
    """

    id: str
    user: str
    ends_at: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """What a run would change now.

    Attributes:
        changes: Tasks that would change something, in the order of the run, without handlers.
        effects: The effects of these changes, each once.
        drains: Nodes that would drain, or that must be drained first because an effect would end
            their jobs. Sorted.
        jobs: The running jobs on each host with an effect, by host. None if Slurm did not answer.
    """

    changes: tuple[HostFinished, ...]
    effects: tuple[Effect, ...]
    drains: tuple[str, ...]
    jobs: Mapping[str, tuple[RunningJob, ...]] | None


def changes(events: Iterable[PlaybookEvent]) -> tuple[HostFinished, ...]:
    """Return the tasks that changed something, in the order of the run, without handlers."""
    return tuple(event for event in _changed(events) if not event.task.is_handler)


def tally(events: Iterable[PlaybookEvent]) -> dict[str, int]:
    """Return how many tasks changed something on each host of the run, without handlers.

    Shape: by host, sorted by host.
    """
    counts: dict[str, int] = {}
    for event in _finished(events):
        counts.setdefault(event.host, 0)
        if event.outcome is TaskOutcome.CHANGED and not event.task.is_handler:
            counts[event.host] += 1
    return dict(sorted(counts.items()))


def failures(events: Iterable[PlaybookEvent]) -> tuple[HostFinished, ...]:
    """Return the last failure of each host on which the run failed, sorted by host.

    A host whose failures were rescued has not failed.
    """
    all_events = tuple(events)
    failed_hosts: set[str] = set()
    for event in all_events:
        if isinstance(event, RunEnded):
            failed_hosts |= event.failed
    last: dict[str, HostFinished] = {}
    for event in _finished(all_events):
        is_failure = event.outcome in {TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}
        if is_failure and event.host in failed_hosts:
            last[event.host] = event
    return tuple(last[host] for host in sorted(last))


def effects(events: Iterable[PlaybookEvent]) -> tuple[Effect, ...]:
    """Return the effects of the changes, each once, in the order of the run."""
    unique: dict[Effect, None] = {}
    for event in _changed(events):
        unique |= dict.fromkeys(_effects_of(event))
    return tuple(unique)


def plan_site(events: Iterable[PlaybookEvent], jobs: Iterable[RunningJob] | None) -> SitePlan:
    """Return the plan that follows from a run in check mode.

    Args:
        events: All events of the run.
        jobs: The running jobs. None if Slurm did not answer.
    """
    all_events = tuple(events)
    all_effects = effects(all_events)
    hosts = sorted({effect.host for effect in all_effects})
    jobs_on = None if jobs is None else _jobs_on(hosts, tuple(jobs))
    drains = {effect.host for effect in all_effects if _drains(effect, jobs_on)}
    return SitePlan(
        changes=changes(all_events),
        effects=all_effects,
        drains=tuple(sorted(drains)),
        jobs=jobs_on,
    )


def _finished(events: Iterable[PlaybookEvent]) -> list[HostFinished]:
    return [event for event in events if isinstance(event, HostFinished)]


def _changed(events: Iterable[PlaybookEvent]) -> list[HostFinished]:
    return [event for event in _finished(events) if event.outcome is TaskOutcome.CHANGED]


def _effects_of(event: HostFinished) -> list[Effect]:
    """Return the effects of a change: those of its handler's name, or of the units it names."""
    objects: tuple[str, ...] = event.targets
    verb = STATES.get(event.unit_state)
    if event.task.is_handler:
        first_word, _, rest = event.task.name.partition(" ")
        verb, objects = VERBS.get(first_word), (rest,)
    if verb is None:
        return []
    return [Effect(host=event.host, verb=verb, to=name) for name in objects]


def _jobs_on(
    hosts: Iterable[str], jobs: tuple[RunningJob, ...]
) -> dict[str, tuple[RunningJob, ...]]:
    """Return the running jobs of each host."""
    by_host = {}
    for host in hosts:
        by_host[host] = tuple(job for job in jobs if host in job.nodes)
    return by_host


def _drains(effect: Effect, jobs_on: Mapping[str, tuple[RunningJob, ...]] | None) -> bool:
    """Return whether a node drains by an effect, or must be drained before it."""
    if effect.verb is Verb.DRAIN:
        return True
    has_jobs = jobs_on is not None and bool(jobs_on[effect.host])
    return has_jobs and effect.verb in ENDS_JOBS
