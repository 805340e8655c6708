# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: the texts of modules, and workflows that use modules."""

from __future__ import annotations

from tests.fakes.definitions import MemoryModules
from tests.unit.workflow.node import steps

from gridstead.workflow.parse import from_graphql

MODULE_HEADER = """\
name: A module
description: For tests.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
"""
GREETING_MODULE = (
    MODULE_HEADER
    + """\
inputs:
- {key: WHO, description: Whom to greet., default: World}
- {key: HOW, description: How.}
outputs:
- {key: RESULT, description: The greeting.}
steps:
- run: {command: 'echo "RESULT=Hello $WHO$HOW" >>"$DEEPSQUARE_ENV"; echo OWN=1 >>"$DEEPSQUARE_ENV"'}
- run: {command: 'echo "inside: $RESULT $OWN"'}
"""
)


def use(source="git.x/a/greet@v1", **fields):
    """Return a step that uses a module."""
    return {"use": {"source": source, **fields}}


def args(**values):
    """Return values in the format that the fields ``args`` and ``env`` of a workflow need."""
    return [{"key": key, "value": value} for key, value in values.items()]


def workflow(*steps_or_commands, texts=None, **fields):
    """Return a workflow that consists of steps.

    Args:
        steps_or_commands: The steps. A string is a step that runs the string as a command.
        texts: The texts of additional modules, by source.
        fields: Additional fields of the workflow.
    """
    modules = MemoryModules({"git.x/a/greet@v1": GREETING_MODULE, **(texts or {})})
    mapping = {
        "resources": {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 100},
        "steps": steps(*steps_or_commands),
        **fields,
    }
    return from_graphql(mapping, fetch_module=modules.text)


def workflow_with_module(text, *others, **fields):
    """Return a workflow whose first step uses a module that consists of a header and ``text``."""
    return workflow(use("git.x/a/m"), *others, texts={"git.x/a/m": MODULE_HEADER + text}, **fields)
