# SPDX-License-Identifier: Apache-2.0
"""Computes how many rounds of each parallel loop run at the same time.

``checks.py`` has checked that the job has the resources for one round of each parallel loop at a
time. This module shares the other resources among the loops, in the order of the file. A loop gets
all resources that are left after the needs of the steps that run at the same time, and after the
shares of earlier loops. The simultaneous rounds of the loop get equal shares of these resources,
which loops inside a round share again. So the resources of each step are free when it starts, and
there are no deadlocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gridstead.workflow.checks import StepNeeds, step_needs
from gridstead.workflow.handles import Launches
from gridstead.workflow.paths import Path
from gridstead.workflow.schema import ResolvedUse, Step, StepFor, Workflow
from gridstead.workflow.totals import ResourceTotals, job_totals

# The limit exists because each round has several processes on the first node of the job.
MAX_AT_ONCE = 1024


def rounds_at_once(workflow: Workflow, launches: Launches) -> dict[Path, int]:
    """Return the number of simultaneous rounds of each parallel loop, by the path of its step.

    Args:
        workflow: A workflow that breaks no rule.
        launches: The launches of the workflow.
    """
    sharer = _ResourceSharer(step_needs(workflow, launches))
    sharer.share_in_list(workflow.steps, ("steps",), job_totals(workflow.resources))
    return sharer.rounds_at_once


class _ResourceSharer:
    """Walks through a workflow and shares the resources of the job.

    Attributes:
        at_once: The result.
        needs: The needs with one round of each loop at a time. In ``launched``, the needs of a
            launch are increased when loops in the launch get more.
        free: The resources that each list can use, by the path of the list.
    """

    def __init__(self, needs: StepNeeds) -> None:
        self.rounds_at_once: dict[Path, int] = {}
        self.needs = needs
        self.free: dict[Path, ResourceTotals] = {}

    def share_in_list(
        self, steps: Iterable[Step], path: Path, free: ResourceTotals
    ) -> ResourceTotals:
        """Share ``free`` among the loops of a list. Return the most the list needs at one time."""
        self.free[path] = free
        peak = ResourceTotals()
        for number, step in enumerate(steps):
            step_path = (*path, number)
            needs = self._share_in_step(step, step_path, self._free_for(step, step_path))
            if step.launch:
                self._set_launch_needs(step_path, needs)
            peak = peak.maximum(self.needs.concurrent[step_path] + needs)
        return peak

    def _free_for(self, step: Step, path: Path) -> ResourceTotals:
        """Return what a step can use, after the needs of steps that run at the same time."""
        free = self.free[path[:-1]] - self.needs.concurrent[path]
        if step.launch:
            own_needs = self.needs.own[path]
            for later_step in self.needs.later_steps[path]:
                total_needs = self.needs.concurrent[later_step] + self.needs.own[later_step]
                free_then = self.free[later_step[:-1]] - (total_needs - own_needs)
                free = free.minimum(free_then)
        return free

    def _set_launch_needs(self, path: Path, needs: ResourceTotals) -> None:
        added_needs = needs - self.needs.own[path]
        for later_step in self.needs.later_steps[path]:
            self.needs.concurrent[later_step] += added_needs

    def _share_in_step(self, step: Step, path: Path, free: ResourceTotals) -> ResourceTotals:
        peak = self.needs.own[path]
        for names, steps in _lists(step):
            peak = peak.maximum(self.share_in_list(steps, (*path, *names), free))
        if step.for_:
            peak = peak.maximum(self._share_in_loop(step.for_, path, free))
        return peak

    def _share_in_loop(self, loop: StepFor, path: Path, free: ResourceTotals) -> ResourceTotals:
        list_path = (*path, "for", "steps")
        if not loop.parallel:
            return self.share_in_list(loop.steps, list_path, free)
        fitting_rounds = free.fitting_count(self.needs.per_round[path])
        number = min(loop.count, fitting_rounds, MAX_AT_ONCE)
        number = max(number, 1)  # a loop without rounds has no needs
        self.rounds_at_once[path] = number
        round_needs = self.share_in_list(loop.steps, list_path, free.divided_by(number))
        return round_needs.times(number) if loop.count else ResourceTotals()


def _lists(step: Step) -> Iterator[tuple[Path, tuple[Step, ...]]]:
    """Yield the path and the steps of each list of a step, except the steps of a loop."""
    yield ("steps",), step.steps
    yield ("catch",), step.catch
    yield ("finally",), step.finally_
    if step.launch:
        yield ("launch", "steps"), step.launch.steps
    if isinstance(step.use, ResolvedUse):
        yield ("use", "module", "steps"), step.use.module.steps
