# SPDX-License-Identifier: Apache-2.0
"""Selects the shell functions in ``templates/`` that the steps of a workflow need."""

from __future__ import annotations

from gridstead.workflow.render.context import all_steps
from gridstead.workflow.render.network import has_namespaces, has_virtual_networks
from gridstead.workflow.render.shell_text import fill, quote
from gridstead.workflow.schema import Step, Workflow

# Timeouts of a step that does not start. Unit: seconds.
START_TIMEOUTS_S = {
    # One call of srun. An srun that waits while slurmctld restarts is not woken up afterwards.
    "call_timeout": 5,
    # All calls of srun together. A step may have to wait for resources that other steps use.
    "start_timeout": 60,
    # All calls of srun together, if slurmctld has restarted. A node may be unable to report that
    # another step has ended. The node reports the end again after a minute. Then the resources of
    # that step are released.
    "restart_timeout": 180,
}

# The parts of the templates that write markers.
MARKER_PARTS = {
    "retry": '    [[ $gridstead_reported ]] || marker "retry $gridstead_step"\n',
    "skip": ' skip_marker "$4" "$5"',
    "run_if_arguments": ", position, name",
    "failed": "    failed_step=${failed_step:-$((code ? code : 2)):$4}\n",
}

# The templates of shell functions, in the order of the script.
HELPERS = (
    "control.sh",
    "start.sh",
    "condition.sh",
    "handlers.sh",
    "branch.sh",
    "loop_markers.sh",
    "parallel.sh",
    "launch.sh",
    "module.sh",
    "forward_signals.sh",
    "container.sh",
    "container_task.sh",
    "network.sh",
)


def helpers(workflow: Workflow, *, bore: str, markers: bool) -> str:
    """Return the shell functions that the steps of this workflow need."""
    marker_parts = MARKER_PARTS if markers else dict.fromkeys(MARKER_PARTS, "")
    needed_templates = _needed_templates(workflow)
    if not markers:
        needed_templates.discard("loop_markers.sh")
    text = ""
    for name in HELPERS:
        if name in needed_templates:
            text += fill(name, bore=quote(bore), **START_TIMEOUTS_S, **marker_parts)
    return text


def _needed_templates(workflow: Workflow) -> set[str]:
    needed_templates = {"control.sh"}
    for step in all_steps(workflow.steps):
        needed_templates |= _needed_by_step(step)
    if workflow.is_output_synced or has_virtual_networks(workflow):
        needed_templates.add("branch.sh")
    if has_namespaces(workflow):
        needed_templates |= {"forward_signals.sh", "network.sh"}
    return needed_templates


def _needed_by_step(step: Step) -> set[str]:
    """Return the templates that a step needs, without the templates for its nested steps."""
    needed = set()
    if step.run:
        needed.add("start.sh")
        if step.run.container:
            needed |= {"forward_signals.sh", "container.sh", "container_task.sh"}
    if step.if_:
        needed.add("condition.sh")
    if step.catch or step.finally_:
        needed.add("handlers.sh")
    if step.for_:
        needed.add("loop_markers.sh")
    if step.for_ and step.for_.parallel:
        needed |= {"branch.sh", "parallel.sh"}
    if step.launch:
        needed |= {"branch.sh", "launch.sh"}
    if step.use:
        needed.add("module.sh")
    return needed
