# SPDX-License-Identifier: Apache-2.0
"""Workflows whose jobs write markers, and the markers of a job."""

from __future__ import annotations

from tests.unit.workflow.node import steps
from tests.unit.workflow.node import workflow as without_log


def workflow(*steps_or_commands, **fields):
    """Return a workflow of these steps whose output is sent to the logger."""
    return without_log(*steps_or_commands, enableLogging=True, **fields)


def loop(*steps_or_commands, parallel=False, **rounds):
    return {"for": {"parallel": parallel, **rounds, "steps": steps(*steps_or_commands)}}


def skipped(**step):
    return {"if": "1 -eq 2", **step}


def step_markers(node):
    """Return the markers of the steps: all except the first and the last, without the prefix."""
    return [marker.removeprefix("[gridstead] ") for marker in node.markers[1:-1]]
