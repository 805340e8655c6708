# SPDX-License-Identifier: Apache-2.0
"""Reads a workflow file for the commands that take one."""

from __future__ import annotations

import sys
from pathlib import Path

from gridstead.errors import InvalidInput
from gridstead.workflow.document import MAX_BYTES
from gridstead.workflow.modules import FetchText
from gridstead.workflow.parse import CheckedWorkflow, check_workflow


def read_workflow(
    path: Path, *, strict: bool = False, fetch_module: FetchText | None = None
) -> CheckedWorkflow:
    """Return the workflow in a file, and the warnings about it.

    Args:
        path: The file. ``-`` is the standard input.
        strict: Whether a key that has no effect is an error instead of a warning.
        fetch_module: Returns the text of a module. The workflow then contains the steps of its
            modules. If the function returns None, the module is left out. None if modules are not
            fetched.

    Raises:
        InvalidInput: If the file cannot be read, is not UTF-8, or breaks a rule of workflows.
    """
    try:
        source = sys.stdin.buffer if str(path) == "-" else path.open("rb")
        with source as file:
            workflow_bytes = file.read(MAX_BYTES + 1)
        return check_workflow(workflow_bytes.decode(), strict=strict, fetch_module=fetch_module)
    except (OSError, ValueError) as error:
        hint = "Run `gridstead workflow init` to create a workflow."
        raise InvalidInput(f"cannot read {path}", detail=str(error), hint=hint) from error
