# SPDX-License-Identifier: Apache-2.0
"""What a run of a playbook tells, event by event, and what follows from it: changes, effects,
failures, a plan.

An effect is what a change costs: a daemon that restarts, reloads or is reconfigured, a node that
drains. Roles say it with their handlers: the first word of a handler's name is a verb of ``VERBS``,
the rest what it does it to. In check mode nothing happens and every event says what would.
"""

from __future__ import annotations

from collections import Counter
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
    """What an effect does."""

    START = "start"
    RECONFIGURE = "reconfigure"
    RELOAD = "reload"
    RESTART = "restart"
    REMOUNT = "remount"
    STOP = "stop"
    DRAIN = "drain"


# First words of handlers' names. Those without an effect only look or wait.
VERBS: Mapping[str, Verb | None] = {
    "Check": None,
    "Drain": Verb.DRAIN,
    "Keep": None,
    "Look": None,
    "Remount": Verb.REMOUNT,
    "Remove": None,
    "Reconfigure": Verb.RECONFIGURE,
    "Reload": Verb.RELOAD,
    "Restart": Verb.RESTART,
    "Start": Verb.START,
    "Stop": Verb.STOP,
    "Wait": None,
}

# What jobs on a host do not outlive: files that they have open go, or what serves them.
HURTS_JOBS = frozenset({Verb.REMOUNT, Verb.STOP})

# States that a task may ask of a unit.
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
        name: As the playbook has it, without its role.
        role: Its role; empty for a task of the play itself.
        is_handler: Whether it runs only because something changed.
    """

    name: str
    role: str = ""
    is_handler: bool = False

    def __str__(self) -> str:
        return f"{self.role}: {self.name}" if self.role else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayStarted:
    """The tasks that follow are of this play."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """All hosts have ended the task before."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinished:
    """A task ended on a host.

    Attributes:
        host: Name in the inventory.
        task: The task.
        outcome: How it ended.
        targets: Files, units, packages or other things it is about, as far as its result names
            them; sorted.
        unit_state: What it asked of units (``started``, ``restarted`` ...); empty for other tasks.
        diff: Difference of the files it changes; empty where none was asked for or the task keeps a
            secret.
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
    """A line beside the tasks, such as why a playbook cannot be read."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run has come to its end; an interrupted one may not.

    Attributes:
        failed: Hosts on which a task failed and nothing rescued it, or that were not reached.
    """

    failed: frozenset[str]


PlaybookEvent = PlayStarted | TaskStarted | HostFinished | PrintedText | RunEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRequest:
    """What is to be run.

    Attributes:
        playbook: File name, relative to the checkout.
        inventory: Where the hosts are listed; None: what ansible.cfg says.
        limit: Pattern of the hosts it is for; None: all.
        tags: Tags of the tasks, with commas; None: all.
        check: Whether to change nothing and tell differences.
    """

    playbook: str
    inventory: str | None = None
    limit: str | None = None
    tags: str | None = None
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRun:
    """What came of an order.

    Attributes:
        outcome: How it ended.
        events: All that was told, in order.
        waiting: By host, what was to be restarted or the like and was not, because the run ended
            before; sorted.
        report: What the playbook reported, as JSON; None if it reports nothing or did not come so
            far.
    """

    outcome: RunOutcome
    events: tuple[PlaybookEvent, ...]
    waiting: Mapping[str, tuple[str, ...]]
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a run does to a daemon or a node, or would.

    Attributes:
        host: Where.
        verb: What.
        to: What it does it to, in the words of the role.
    """

    host: str
    verb: Verb
    to: str

    def __str__(self) -> str:
        return f"{self.verb} {self.to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A Slurm job that is on nodes now.

    Attributes:
        id: Slurm's number of it.
        user: Whose it is.
        ends_at: When its time is over, as Slurm prints it.
        nodes: Names of its nodes.
    """

    id: str
    user: str
    ends_at: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePlan:
    """What a run would change now.

    Attributes:
        changes: Tasks that would change something, in the order of the run; no handlers.
        effects: What these changes would cost, each once.
        drains: Nodes that would drain, or that are to be drained first, because their jobs would
            not outlive an effect; sorted.
        jobs: Jobs on each host with an effect, by host; None if Slurm could not be asked.
    """

    changes: tuple[HostFinished, ...]
    effects: tuple[Effect, ...]
    drains: tuple[str, ...]
    jobs: Mapping[str, tuple[RunningJob, ...]] | None


def changes(events: Iterable[PlaybookEvent]) -> tuple[HostFinished, ...]:
    """Return what changed, in the order of the run, without what the handlers did."""
    ended = (event for event in events if isinstance(event, HostFinished))
    return tuple(
        one for one in ended if one.outcome is TaskOutcome.CHANGED and not one.task.is_handler
    )


def tally(events: Iterable[PlaybookEvent]) -> dict[str, int]:
    """Return how many tasks changed something on each host that took part, by host, sorted; no
    handlers.
    """
    told = tuple(events)
    counts = Counter(one.host for one in changes(told))
    return {
        host: counts[host]
        for host in sorted({one.host for one in told if isinstance(one, HostFinished)})
    }


def failures(events: Iterable[PlaybookEvent]) -> tuple[HostFinished, ...]:
    """Return the last failure of each host on which the run failed, sorted by host. What was
    rescued is none.
    """
    told = tuple(events)
    failed = frozenset[str]().union(
        *(event.failed for event in told if isinstance(event, RunEnded))
    )
    ended = (event for event in told if isinstance(event, HostFinished) and event.host in failed)
    last = {
        event.host: event
        for event in ended
        if event.outcome in {TaskOutcome.FAILED, TaskOutcome.UNREACHABLE}
    }
    return tuple(last[host] for host in sorted(last))


def effects(events: Iterable[PlaybookEvent]) -> tuple[Effect, ...]:
    """Return what the changes cost, each effect once, in the order of the run."""
    ended = (
        event
        for event in events
        if isinstance(event, HostFinished) and event.outcome is TaskOutcome.CHANGED
    )
    return tuple(dict.fromkeys(effect for event in ended for effect in _effects_of(event)))


def _effects_of(event: HostFinished) -> tuple[Effect, ...]:
    if event.task.is_handler:
        first, _, rest = event.task.name.partition(" ")
        verb = VERBS.get(first)
        return (Effect(host=event.host, verb=verb, to=rest),) if verb else ()
    verb = STATES.get(event.unit_state)
    return (
        tuple(Effect(host=event.host, verb=verb, to=unit) for unit in event.targets) if verb else ()
    )


def plan_site(events: Iterable[PlaybookEvent], jobs: Iterable[RunningJob] | None) -> SitePlan:
    """Return the plan that a run in check mode tells.

    Args:
        events: All events of the run.
        jobs: What is on nodes now; None if Slurm could not be asked.
    """
    told = tuple(events)
    costs = effects(told)
    hosts = sorted({effect.host for effect in costs})
    running = None if jobs is None else tuple(jobs)
    in_the_way = (
        None
        if running is None
        else {h: tuple(job for job in running if h in job.nodes) for h in hosts}
    )
    return SitePlan(
        changes=changes(told),
        effects=costs,
        drains=tuple(sorted({effect.host for effect in costs if _drains(effect, in_the_way)})),
        jobs=in_the_way,
    )


def _drains(effect: Effect, in_the_way: Mapping[str, tuple[RunningJob, ...]] | None) -> bool:
    there = bool(in_the_way and in_the_way[effect.host])
    return effect.verb is Verb.DRAIN or (there and effect.verb in HURTS_JOBS)
