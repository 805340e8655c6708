# SPDX-License-Identifier: Apache-2.0
"""Rules that concern several fields: total resources of steps, handles, and limits of the workflow.

Steps run at the same time in two cases. The rounds of a parallel loop run at the same time, as many
as fit (``rounds.py``). A launched step runs at the same time as the later steps of its list, until
a step waits for it or the list ends. ``handles.py`` finds the launch for which a step waits, and
the launches that outlive their list. Launched steps, later steps and one round of each parallel
loop must fit into the resources of the job together, so that no step waits for resources that
another step does not release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gridstead.workflow.handles import Launches, dependencies, find_launches, is_plain_group
from gridstead.workflow.paths import Path
from gridstead.workflow.schema import ResolvedUse, Step, StepFor, StepRun, Workflow
from gridstead.workflow.totals import ResourceTotals, job_totals

MAX_ALL_STEPS = 1024

# Maps the path of each running launched step to its needs.
NeedsOfLaunches = dict[Path, ResourceTotals]


@dataclass(frozen=True, slots=True)
class StepNeeds:
    """What the steps of a workflow need if one round of each parallel loop runs at a time.

    Attributes:
        own: The most resources that each step needs at one time.
        per_round: The most resources that one round of each parallel loop needs at one time, by the
            path of the step with the loop.
        concurrent: The total needs of the launched steps that run at the same time as each step.
        later_steps: The later steps during which each launched step runs, by the path of the
            launching step. They are steps of its list, or of the lists around its plain groups.
    """

    own: dict[Path, ResourceTotals] = field(default_factory=dict)
    per_round: dict[Path, ResourceTotals] = field(default_factory=dict)
    concurrent: dict[Path, ResourceTotals] = field(default_factory=dict)
    later_steps: dict[Path, list[Path]] = field(default_factory=dict)


def broken_rules(workflow: Workflow) -> tuple[tuple[Path, str], ...]:
    """Return the path and the reason of each broken rule."""
    checker = _Checker(workflow, find_launches(workflow.steps))
    checker.check_networks()
    checker.check_steps(workflow.steps, ("steps",), {})
    if checker.step_count > MAX_ALL_STEPS:
        reason = f"has {checker.step_count} steps in total, more than {MAX_ALL_STEPS}"
        checker.problems.append((("steps",), reason))
    return tuple(checker.problems)


def step_needs(workflow: Workflow, launches: Launches) -> StepNeeds:
    """Return the needs of the steps of a workflow that breaks no rule."""
    checker = _Checker(workflow, launches)
    checker.check_steps(workflow.steps, ("steps",), {})
    return checker.needs


@dataclass(slots=True)
class _Checker:
    """Walks through a workflow and collects the broken rules."""

    workflow: Workflow
    launches: Launches
    problems: list[tuple[Path, str]] = field(default_factory=list)
    needs: StepNeeds = field(default_factory=StepNeeds)
    step_count: int = 0

    def check_networks(self) -> None:
        """Check that the names of the virtual networks are unique."""
        names: set[str] = set()
        for number, network in enumerate(self.workflow.virtual_networks):
            if network.name in names:
                path = ("virtualNetworks", number, "name")
                self.problems.append((path, "is already the name of another network"))
            names.add(network.name)

    def check_steps(
        self, steps: Iterable[Step], path: Path, running_after: NeedsOfLaunches
    ) -> ResourceTotals:
        """Check a list of steps, and return the most resources that the list needs at one time.

        Adds the launches that continue to run after the list to ``running_after``.
        """
        running: NeedsOfLaunches = {}
        peak = ResourceTotals()
        for number, step in enumerate(steps):
            step_path = (*path, number)
            for launch_path in self._awaited_launches(step, step_path):
                running.pop(launch_path, None)
            running_needs = sum(running.values(), ResourceTotals())
            self.needs.concurrent[step_path] = running_needs
            for launch_path in running:
                self.needs.later_steps[launch_path].append(step_path)
            needs = self._step_needs(step, step_path, running)
            self.needs.own[step_path] = needs
            subject = "with earlier launched steps that still run, it needs"
            total = self._check_fit(step_path, running_needs + needs, subject)
            peak = peak.maximum(total)
            if step.launch:
                self.needs.later_steps[step_path] = []
                # If _check_fit() has reported a problem, it returns empty needs.
                was_reported = total == ResourceTotals()
                running[step_path] = ResourceTotals() if was_reported else needs
        outliving = self.launches.outliving & running.keys()
        running_after |= {launch_path: running[launch_path] for launch_path in outliving}
        return peak

    def _awaited_launches(self, step: Step, path: Path) -> Iterator[Path]:
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

    def _step_needs(self, step: Step, path: Path, running: NeedsOfLaunches) -> ResourceTotals:
        self.step_count += 1
        running_after = running if is_plain_group(step) else {}
        peaks = [
            self.check_steps(step.steps, (*path, "steps"), running_after),
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
            peaks.append(self._loop_needs(step.for_, path))
        if step.launch:
            launch_path = (*path, "launch", "steps")
            peaks.append(self.check_steps(step.launch.steps, launch_path, {}))
        peak = ResourceTotals()
        for needs in peaks:
            peak = peak.maximum(needs)
        return peak

    def _run_needs(self, run: StepRun, path: Path) -> ResourceTotals:
        step, job = run.resources, self.workflow.resources
        cpus = step.tasks * (step.cpus_per_task or job.cpus_per_task)
        memory = cpus * (step.mem_per_cpu or job.mem_per_cpu)
        return self._check_fit(
            path, ResourceTotals(cpus, memory, step.tasks * step.gpus_per_task), "needs"
        )

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

    def _loop_needs(self, loop: StepFor, path: Path) -> ResourceTotals:
        needs = self.check_steps(loop.steps, (*path, "for", "steps"), {})
        if not loop.parallel:
            return needs
        self.needs.per_round[path] = needs
        return needs if loop.count else ResourceTotals()

    def _check_fit(self, path: Path, needs: ResourceTotals, subject: str) -> ResourceTotals:
        """Check that the job has these resources, and return them.

        Returns:
            The needs, or no resources if the job has too few. The empty needs keep the
            checks of enclosing steps from reporting the same problem again.
        """
        job = job_totals(self.workflow.resources)
        rows = (
            (needs.cpus, job.cpus, "CPU threads"),
            (needs.mem, job.mem, "MB of memory"),
            (needs.gpus, job.gpus, "GPUs"),
        )
        fits = True
        for needed_amount, available_amount, unit in rows:
            if needed_amount > available_amount:
                reason = f"{subject} {needed_amount} {unit}, but the job has {available_amount}"
                self.problems.append((path, reason))
                fits = False
        return needs if fits else ResourceTotals()
