# SPDX-License-Identifier: Apache-2.0
"""The steps of a whole run, and what it found."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from types import ModuleType

from gridstead.domain.benchmarks.site import (
    Cause,
    Failure,
    Findings,
    MeasuredSite,
    Outcomes,
    Step,
)
from gridstead.domain.benchmarks.suites import (
    answers,
    compute,
    gpu,
    internet,
    network,
    processor,
    storage,
)

# The suites by their names.
SUITES = {
    "answers": answers,
    "processor": processor,
    "compute": compute,
    "gpu": gpu,
    "network": network,
    "storage": storage,
    "internet": internet,
}


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return the steps of the selected suites, first those that do not need a quiet site.

    The suite ``network`` needs the equipment that the suite ``processor`` reads.
    """
    selected = _selected(site)
    if _measures_network(site) and processor not in selected:
        selected.append(processor)
    all_steps = [step for suite in selected for step in suite.steps(site)]
    return tuple(sorted(all_steps, key=lambda step: step.needs_quiet))


def _measures_network(site: MeasuredSite) -> bool:
    return network in _selected(site) and bool(network.steps(site))


def _selected(site: MeasuredSite) -> list[ModuleType]:
    names = site.options.suites or tuple(SUITES)
    return [suite for name, suite in SUITES.items() if name in names]


def with_equipment(site: MeasuredSite, outcomes: Outcomes) -> MeasuredSite:
    """Return the site with its equipment. Only then the steps that need a quiet site are final.

    Args:
        site: The site.
        outcomes: The outcome of each step that does not need a quiet site.
    """
    if not _measures_network(site):
        return site
    return replace(site, equipment=processor.site_equipment(site, outcomes))


def repeatable(
    steps: Iterable[Step], outcomes: Outcomes, *, busy_nodes: Collection[str]
) -> tuple[Step, ...]:
    """Return the steps that were preempted and can run now.

    Args:
        steps: The steps.
        outcomes: The outcome of each step.
        busy_nodes: The names of the nodes on which jobs of others run.
    """
    return tuple(
        step
        for step in steps
        if _was_preempted(outcomes, step)
        and not (busy_nodes if step.needs_quiet else set(busy_nodes).intersection(step.nodes))
    )


def _was_preempted(outcomes: Outcomes, step: Step) -> bool:
    outcome = outcomes[step.name]
    return isinstance(outcome, Failure) and outcome.cause is Cause.PREEMPTED


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return what a run found.

    Args:
        site: The site with its equipment.
        outcomes: The outcome of each step of the site.
    """
    site_findings = Findings()
    for suite in _selected(site):
        site_findings.add(suite.findings(site, outcomes))
    return site_findings
