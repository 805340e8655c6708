# SPDX-License-Identifier: Apache-2.0
"""Reads the workflow file of a command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gridstead.cli.output import print_note
from gridstead.errors import InvalidInput
from gridstead.workflow.parse import check_workflow
from gridstead.workflow.schema import ModuleSource, Workflow

MAX_BYTES = 256 * 1024


def read_workflow(
    path: Path, *, strict: bool = False, modules: Callable[[ModuleSource], str] | None = None
) -> Workflow:
    """Return the workflow of a file.

    Args:
        path: The file; ``-`` for standard input.
        strict: Whether a field in a wrong place is an error, or a warning on stderr.
        modules: Fetches a module, whose steps are then in the workflow; None not to fetch modules.

    Raises:
        InvalidInput: If the file cannot be read, is not UTF-8, or breaks a rule.
    """
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        checked = check_workflow(data.decode(), strict=strict, modules=modules)
    except (OSError, ValueError) as error:
        hint = "Run `gridstead workflow init` to create a workflow."
        raise InvalidInput(f"cannot read {path}", detail=str(error), hint=hint) from error
    for warning in checked.warnings:
        print_note(f"warning: {warning}. {warning.hint or ''}".rstrip())
    return checked.workflow
