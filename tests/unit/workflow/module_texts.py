# SPDX-License-Identifier: Apache-2.0
"""Modules, and workflows that use them."""

from __future__ import annotations

from tests.fakes.definitions import MemoryModules
from tests.unit.workflow.node import command

from gridstead.workflow.parse import from_graphql

HEAD = """\
name: A module
description: For tests.
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
"""
GREET = (
    HEAD
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
    return {"use": {"source": source, **fields}}


def args(**values):
    return [{"key": key, "value": value} for key, value in values.items()]


def workflow(*some_steps, texts=None, **fields):
    """Return a workflow of these steps with its modules."""
    mapping = {
        "resources": {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 100},
        "steps": [command(step) for step in some_steps],
        **fields,
    }
    return from_graphql(
        mapping, modules=MemoryModules({"git.x/a/greet@v1": GREET, **(texts or {})}).text
    )


def using(text, *others, **fields):
    """Return a workflow whose first step uses a module with this text."""
    return workflow(use("git.x/a/m"), *others, texts={"git.x/a/m": HEAD + text}, **fields)
