# SPDX-License-Identifier: Apache-2.0
"""Rules that concern several fields: total resources of steps, handles, and limits of the workflow.

Steps run at the same time in two cases. All iterations of a parallel loop run at the same time. A
launched step runs at the same time as the later steps of its list, until a step waits for it or the
list ends. ``handles.py`` finds the launch for which a step waits, and the launches that outlive
their list. Steps that run at the same time must fit into the resources of the job, so that no step
waits for resources that another step does not release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gridstead.workflow.handles import Launches, dependencies, find_launches, is_plain_group
from gridstead.workflow.paths import Path
from gridstead.workflow.schema import ResolvedUse, Step, StepFor, StepRun, Workflow

MAX_ALL_STEPS = 1024
MAX_PARALLEL = 1024

# Maps the path of each running launched step to its needs.
Running = dict[Path, "Needs"]


@dataclass(frozen=True, slots=True)
class Needs:
    """Total resources of steps that run at the same time. Unit of ``mem``: MB."""

    cpus: int = 0
    mem: int = 0
    gpus: int = 0

    def __add__(self, other: Needs) -> Needs:
        """Return the sum of each resource."""
        return Needs(self.cpus + other.cpus, self.mem + other.mem, self.gpus + other.gpus)

    def times(self, number: int) -> Needs:
        """Return the total resources of ``number`` steps that each have these needs."""
        return Needs(self.cpus * number, self.mem * number, self.gpus * number)

    def maximum(self, other: Needs) -> Needs:
        """Return the larger value of each resource."""
        return Needs(
            max(self.cpus, other.cpus), max(self.mem, other.mem), max(self.gpus, other.gpus)
        )


def broken_rules(workflow: Workflow) -> tuple[tuple[Path, str], ...]:
    """Return the path and the reason of each broken rule."""
    checker = _Checker(workflow, find_launches(workflow.steps))
    checker.check_networks()
    checker.check_steps(workflow.steps, ("steps",), {})
    if checker.step_count > MAX_ALL_STEPS:
        reason = f"has {checker.step_count} steps in total, more than {MAX_ALL_STEPS}"
        checker.problems.append((("steps",), reason))
    return tuple(checker.problems)


@dataclass(slots=True)
class _Checker:
    """Walks through a workflow and collects the broken rules."""

    workflow: Workflow
    launches: Launches
    problems: list[tuple[Path, str]] = field(default_factory=list)
    step_count: int = 0

    def check_networks(self) -> None:
        """Check that the names of the virtual networks are unique."""
        names: set[str] = set()
        for number, network in enumerate(self.workflow.virtual_networks):
            if network.name in names:
                path = ("virtualNetworks", number, "name")
                self.problems.append((path, "is already the name of another network"))
            names.add(network.name)

    def check_steps(self, steps: Iterable[Step], path: Path, still_running: Running) -> Needs:
        """Check a list of steps, and return the most resources that the list needs at one time.

        Adds the launches that continue to run after the list to ``still_running``.
        """
        running: Running = {}
        peak = Needs()
        for number, step in enumerate(steps):
            step_path = (*path, number)
            for launch_path in self._awaited(step, step_path):
                running.pop(launch_path, None)
            running_needs = sum(running.values(), Needs())
            needs = self._step_needs(step, step_path, running)
            subject = "with earlier launched steps that still run, it needs"
            total = self._check_fit(step_path, running_needs + needs, subject)
            peak = peak.maximum(total)
            if step.launch:
                # If _check_fit() has reported a problem, it returns empty needs.
                was_reported = total == Needs()
                running[step_path] = Needs() if was_reported else needs
        outliving = self.launches.outliving & running.keys()
        still_running |= {launch_path: running[launch_path] for launch_path in outliving}
        return peak

    def _awaited(self, step: Step, path: Path) -> Iterator[Path]:
        """Yield the path of each launch for which a step waits, and collect wrong handles."""
        for item_path, _ in dependencies(step, path):
            launch_path = self.launches.awaited.get(item_path)
            if launch_path:
                yield launch_path
                continue
            reason = "is not the handle of an earlier launched step"
            if item_path in self.launches.awaited:
                reason = (
                    "is launched outside this parallel loop or launch;"
                    " only the enclosing step can wait for it"
                )
            self.problems.append((item_path, reason))

    def _step_needs(self, step: Step, path: Path, running: Running) -> Needs:
        self.step_count += 1
        still_running = running if is_plain_group(step) else {}
        peaks = [
            self.check_steps(step.steps, (*path, "steps"), still_running),
            self.check_steps(step.catch, (*path, "catch"), {}),
            self.check_steps(step.finally_, (*path, "finally"), {}),
        ]
        if step.run:
            peaks.append(self._run_needs(step.run, (*path, "run", "resources")))
            self._check_vnets(step.run, (*path, "run", "customNetworkInterfaces"))
        if isinstance(step.use, ResolvedUse):
            module_path = (*path, "use", "module", "steps")
            peaks.append(self.check_steps(step.use.module.steps, module_path, {}))
        if step.for_:
            peaks.append(self._loop_needs(step.for_, (*path, "for")))
        if step.launch:
            launch_path = (*path, "launch", "steps")
            peaks.append(self.check_steps(step.launch.steps, launch_path, {}))
        peak = Needs()
        for needs in peaks:
            peak = peak.maximum(needs)
        return peak

    def _run_needs(self, run: StepRun, path: Path) -> Needs:
        step, job = run.resources, self.workflow.resources
        cpus = step.tasks * (step.cpus_per_task or job.cpus_per_task)
        memory = cpus * (step.mem_per_cpu or job.mem_per_cpu)
        return self._check_fit(path, Needs(cpus, memory, step.tasks * step.gpus_per_task), "needs")

    def _check_vnets(self, run: StepRun, path: Path) -> None:
        networks = {network.name: network for network in self.workflow.virtual_networks}
        for number, interface in enumerate(run.custom_network_interfaces):
            vnet = interface.vnet
            if vnet is None:
                continue
            vnet_path = (*path, number, "vnet")
            network = networks.get(vnet.name)
            if network is None:
                reason = "is not the name of a virtual network"
                self.problems.append(((*vnet_path, "name"), reason))
            elif not network.can_assign(vnet.address):
                reason = (
                    f"is not a free address of {vnet.name},"
                    f" whose gateway is {network.gateway_address}"
                )
                self.problems.append(((*vnet_path, "address"), reason))

    def _loop_needs(self, loop: StepFor, path: Path) -> Needs:
        needs = self.check_steps(loop.steps, (*path, "steps"), {})
        if not loop.parallel:
            return needs
        count = _iterations(loop)
        if count > MAX_PARALLEL:
            reason = f"has {count} parallel iterations, more than {MAX_PARALLEL}"
            self.problems.append((path, reason))
        subject = f"its {count} parallel iterations together need"
        return self._check_fit(path, needs.times(count), subject)

    def _check_fit(self, path: Path, needs: Needs, subject: str) -> Needs:
        """Check that the job has these resources, and return them.

        Returns:
            The needs, or ``Needs()`` if the job has too few resources. The empty needs keep the
            checks of enclosing steps from reporting the same problem again.
        """
        job = self.workflow.resources
        cpus = job.tasks * job.cpus_per_task
        rows = (
            (needs.cpus, cpus, "CPU threads"),
            (needs.mem, cpus * job.mem_per_cpu, "MB of memory"),
            (needs.gpus, job.gpus, "GPUs"),
        )
        fits = True
        for needed_amount, available_amount, unit in rows:
            if needed_amount > available_amount:
                reason = f"{subject} {needed_amount} {unit}, but the job has {available_amount}"
                self.problems.append((path, reason))
                fits = False
        return needs if fits else Needs()


def _iterations(loop: StepFor) -> int:
    if loop.items is not None:
        return len(loop.items)
    return len(loop.range.numbers()) if loop.range else 0
