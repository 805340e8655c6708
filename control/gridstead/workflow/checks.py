# SPDX-License-Identifier: Apache-2.0
"""Rules that more than one field takes part in: resources of steps together, handles, sizes of the
whole.

Steps run at once in two ways: rounds of a parallel loop, and what is launched beside the steps that
follow in its list, up to the one that waits for it. What runs at once has to fit into the job, or
it would wait for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gridstead.workflow.document import Path
from gridstead.workflow.schema import ResolvedUse, Step, StepFor, StepRun, Workflow

MAX_ALL_STEPS = 1024
MAX_PARALLEL = 1024

# Whether a handle that is known at some place can be waited for there.
Handles = Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Needs:
    """What runs at once takes: CPU threads, memory (MB) and GPUs, totals."""

    cpus: int = 0
    mem: int = 0
    gpus: int = 0

    def __add__(self, other: Needs) -> Needs:
        """Return what both take together."""
        return Needs(self.cpus + other.cpus, self.mem + other.mem, self.gpus + other.gpus)

    def times(self, number: int) -> Needs:
        """Return what so many take together."""
        return Needs(self.cpus * number, self.mem * number, self.gpus * number)

    def or_(self, other: Needs) -> Needs:
        """Return what is enough for either."""
        return Needs(
            max(self.cpus, other.cpus), max(self.mem, other.mem), max(self.gpus, other.gpus)
        )


def broken_rules(workflow: Workflow) -> tuple[tuple[Path, str], ...]:
    """Return the place and the reason of each broken rule."""
    check = _Check(workflow)
    check.networks()
    check.list_of_steps(workflow.steps, ("steps",), {})
    if check.count > MAX_ALL_STEPS:
        check.problems.append(
            (("steps",), f"has {check.count} steps in all, more than {MAX_ALL_STEPS}")
        )
    return tuple(check.problems)


@dataclass(slots=True)
class _Check:
    """Walks through a workflow."""

    workflow: Workflow
    problems: list[tuple[Path, str]] = field(default_factory=list)
    count: int = 0

    def networks(self) -> None:
        """Names of networks are each one network's."""
        names = [network.name for network in self.workflow.virtual_networks]
        for number, name in enumerate(names):
            if name in names[:number]:
                self.problems.append(
                    (("virtualNetworks", number, "name"), "is the name of another network already")
                )

    def list_of_steps(self, steps: Iterable[Step], path: Path, around: Handles) -> Needs:
        """Return the most that a list of steps takes at any time."""
        handles = dict(around)
        running: dict[str, Needs] = {}
        peak = Needs()
        for number, step in enumerate(steps):
            place = (*path, number)
            self._await(step, place, handles)
            for handle in step.depends_on:
                running.pop(handle.lower(), None)
            beside = sum(running.values(), Needs())
            need = self._step(step, place, handles)
            together = self._fit(
                place, beside + need, "with what was launched before and still runs, it takes"
            )
            peak = peak.or_(together)
            if step.launch:
                name = self._handle(step, place, handles) or f"#{number}"
                running[name] = need if together != Needs() else Needs()
        return peak

    def _await(self, step: Step, path: Path, handles: Handles) -> None:
        for number, handle in enumerate(step.depends_on):
            if handle.lower() not in handles:
                reason = "is the handle of no step that is launched before"
            elif not handles[handle.lower()]:
                reason = "is launched outside of this parallel loop or launch; the step around it can wait for it"
            else:
                continue
            self.problems.append(((*path, "dependsOn", number), reason))

    def _handle(self, step: Step, path: Path, handles: dict[str, bool]) -> str | None:
        assert step.launch, "only what is launched has a handle"
        name = step.launch.handle_name
        if name is None:
            return None
        if name.lower() in handles:
            self.problems.append(
                ((*path, "launch", "handleName"), "is the handle of another step already")
            )
        handles[name.lower()] = True
        return name.lower()

    def _step(self, step: Step, path: Path, handles: Handles) -> Needs:
        self.count += 1
        inside = dict.fromkeys(handles, False) if step.launch else handles
        peaks = [
            self.list_of_steps(step.steps, (*path, "steps"), inside),
            self.list_of_steps(step.catch, (*path, "catch"), inside),
            self.list_of_steps(step.finally_, (*path, "finally"), inside),
        ]
        if step.run:
            peaks.append(self._run(step.run, (*path, "run", "resources")))
            self._ends(step.run, (*path, "run", "customNetworkInterfaces"))
        if isinstance(step.use, ResolvedUse):
            peaks.append(
                self.list_of_steps(step.use.module.steps, (*path, "use", "module", "steps"), {})
            )
        if step.for_:
            peaks.append(self._loop(step.for_, (*path, "for"), handles))
        if step.launch:
            peaks.append(
                self.list_of_steps(
                    step.launch.steps, (*path, "launch", "steps"), dict.fromkeys(handles, False)
                )
            )
        most = Needs()
        for peak in peaks:
            most = most.or_(peak)
        return most

    def _run(self, run: StepRun, path: Path) -> Needs:
        step, job = run.resources, self.workflow.resources
        cpus = step.tasks * (step.cpus_per_task or job.cpus_per_task)
        memory = cpus * (step.mem_per_cpu or job.mem_per_cpu)
        return self._fit(path, Needs(cpus, memory, step.tasks * step.gpus_per_task), "takes")

    def _ends(self, run: StepRun, path: Path) -> None:
        networks = {network.name: network for network in self.workflow.virtual_networks}
        for number, interface in enumerate(run.custom_network_interfaces):
            end = interface.vnet
            if end and end.name not in networks:
                self.problems.append(
                    ((*path, number, "vnet", "name"), "is the name of none of the virtualNetworks")
                )
            elif end and not networks[end.name].holds(end.address):
                reason = f"is no free address of {end.name}, which has {networks[end.name].gateway_address}"
                self.problems.append(((*path, number, "vnet", "address"), reason))

    def _loop(self, loop: StepFor, path: Path, handles: Handles) -> Needs:
        inside = dict.fromkeys(handles, False) if loop.parallel else handles
        need = self.list_of_steps(loop.steps, (*path, "steps"), inside)
        if not loop.parallel:
            return need
        rounds = (
            len(loop.items)
            if loop.items is not None
            else len(loop.range.numbers())
            if loop.range
            else 0
        )
        if rounds > MAX_PARALLEL:
            self.problems.append((path, f"has {rounds} parallel rounds, more than {MAX_PARALLEL}"))
        return self._fit(path, need.times(rounds), f"its {rounds} parallel rounds together take")

    def _fit(self, path: Path, need: Needs, said: str) -> Needs:
        """Return the need; nothing if it is more than the job has, which is told here and not again
        further out.
        """
        job = self.workflow.resources
        cpus = job.tasks * job.cpus_per_task
        has = Needs(cpus, cpus * job.mem_per_cpu, job.gpus)
        rows = [
            (need.cpus, has.cpus, "CPU threads"), (need.mem, has.mem, "MB of memory"), (need.gpus, has.gpus, "GPUs"),
        ]  # fmt: skip
        over = [
            f"{said} {wants} {unit}, more than the {is_} of the job"
            for wants, is_, unit in rows
            if wants > is_
        ]
        self.problems.extend((path, reason) for reason in over)
        return Needs() if over else need
