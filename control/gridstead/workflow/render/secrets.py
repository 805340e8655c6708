# SPDX-License-Identifier: Apache-2.0
"""What a job needs to know and its script must not hold: it comes in the environment and goes into
private files.
"""

from __future__ import annotations

from collections.abc import Mapping

from gridstead.workflow.render.container import registry_secrets
from gridstead.workflow.render.data import input_access, output_access
from gridstead.workflow.render.network import network_secrets
from gridstead.workflow.render.shell_text import fill
from gridstead.workflow.schema import Workflow

_LOGGER = (
    "GRIDSTEAD_LOGGER_URL", "GRIDSTEAD_LOGGER_CA", "GRIDSTEAD_LOG_OWNER", "GRIDSTEAD_LOG_NAME", "GRIDSTEAD_LOG_TOKEN",
)  # fmt: skip


def secrets_of(workflow: Workflow) -> Mapping[str, str]:
    """Return the customer's own secrets: variables that must be in the job's environment, and their
    values.
    """
    found = {"GRIDSTEAD_INPUT": input_access(workflow), "GRIDSTEAD_OUTPUT": output_access(workflow)}
    return {variable: text for variable, text in found.items() if text} | {
        **registry_secrets(workflow), **network_secrets(workflow),
    }  # fmt: skip


def put_away(workflow: Workflow, *, logging: bool) -> str:
    """Return the part of the script that takes secrets out of the environment; empty if there are
    none.
    """
    files: dict[str, tuple[str, ...]] = {"logger": _LOGGER} if logging else {}
    files |= {_file(variable): (variable,) for variable in secrets_of(workflow)}
    if not files:
        return ""
    told = "".join(_tell(name, variables) for name, variables in files.items())
    unset = "".join(f" -u {variable}" for variables in files.values() for variable in variables)
    return fill("secrets.sh", told=told, unset=unset)


def _tell(name: str, variables: tuple[str, ...]) -> str:
    """Return the line that says a file's name and its text, a line of it for each variable; NUL
    ends both.
    """
    values = " ".join(f'"${{{variable}:-}}"' for variable in variables)
    lines = "%s\\n" * len(variables)
    return f"      printf '{name}\\0{lines}\\0' {values}\n"


def _file(variable: str) -> str:
    return variable.removeprefix("GRIDSTEAD_").lower().replace("_", "-")
