# SPDX-License-Identifier: Apache-2.0
"""The suite ``answers``: which nodes of the partition start no job.

It has no labels. Slurm reports some nodes as drained or as not responding. They are not measured.
If the operator wants, each node of the partition must start a job, also one that Slurm reports.
"""

from __future__ import annotations

from gridstead.domain.benchmarks.scripts import script
from gridstead.domain.benchmarks.site import (
    Diagnostic,
    Failure,
    Findings,
    MeasuredSite,
    Outcomes,
    Step,
)

_LIMIT_S = 60


def steps(site: MeasuredSite) -> tuple[Step, ...]:
    """Return one step for each node of the partition, or none."""
    if not site.options.asks_all_nodes:
        return ()
    names = sorted(node.name for node in (*site.nodes, *site.unavailable_nodes))
    return tuple(
        Step(
            name=_name(node),
            nodes=(node,),
            tasks_per_node=1,
            script=script(("hostname",)),
            limit_s=_LIMIT_S,
        )
        for node in names
    )


def findings(site: MeasuredSite, outcomes: Outcomes) -> Findings:
    """Return the nodes that are not measured, and those that started no job."""
    site_findings = Findings()
    for node in site.unavailable_nodes:
        site_findings.diagnostics.append(
            Diagnostic(node=node.name, reason=f"it is not measured: {node.unavailable}")
        )
    for step in steps(site):
        outcome = outcomes[step.name]
        if isinstance(outcome, Failure):
            reason = f"its job did not succeed: {outcome.reason}"
            site_findings.diagnostics.append(Diagnostic(node=step.nodes[0], reason=reason))
    return site_findings


def _name(node: str) -> str:
    return f"answers-{node}"
