# SPDX-License-Identifier: Apache-2.0
"""The secrets of a job. Its script does not contain them.

The supervisor passes the secrets in the environment of the job, and the script writes the secrets
to private files.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from gridstead.workflow.render.container import registry_secrets
from gridstead.workflow.render.data import input_access, output_access
from gridstead.workflow.render.network import network_secrets
from gridstead.workflow.render.shell_text import fill
from gridstead.workflow.schema import Workflow

_LOGGER_VARIABLES = (
    "GRIDSTEAD_LOGGER_URL",
    "GRIDSTEAD_LOGGER_CA",
    "GRIDSTEAD_LOG_OWNER",
    "GRIDSTEAD_LOG_NAME",
    "GRIDSTEAD_LOG_TOKEN",
)


def secrets_of(workflow: Workflow) -> Mapping[str, str]:
    """Return the customer's secrets: variables of the job's environment and their values."""
    secrets: dict[str, str] = {}
    if access := input_access(workflow):
        secrets["GRIDSTEAD_INPUT"] = access
    if access := output_access(workflow):
        secrets["GRIDSTEAD_OUTPUT"] = access
    return secrets | {**registry_secrets(workflow), **network_secrets(workflow)}


def store_secrets(workflow: Workflow, *, logging: bool) -> str:
    """Return the part of the script that moves secrets from the environment to private files.

    Returns:
        An empty text if there are no secrets.
    """
    files: dict[str, tuple[str, ...]] = {"logger": _LOGGER_VARIABLES} if logging else {}
    files |= {_file_name(variable): (variable,) for variable in secrets_of(workflow)}
    if not files:
        return ""
    writes = "".join(_printf_line(name, variables) for name, variables in files.items())
    unset = "".join(f" \\\n    -u {variable}" for variable in chain.from_iterable(files.values()))
    return fill("secrets.sh", writes=writes, unset=unset)


def _printf_line(name: str, variables: tuple[str, ...]) -> str:
    """Return the line that prints the name and the content of a file, with a NUL after each.

    The content has one line for each variable. A variable that is not set is an empty line.
    """
    expansions = ['"${' + variable + ':-}"' for variable in variables]
    values = "".join(f" \\\n        {expansion}" for expansion in expansions)
    line_formats = "%s\\n" * len(variables)
    return f"      printf '{name}\\0{line_formats}\\0'{values}\n"


def _file_name(variable: str) -> str:
    """Return the name of a variable's file, for example ``network-1`` for the first tunnel."""
    return variable.removeprefix("GRIDSTEAD_").lower().replace("_", "-")
