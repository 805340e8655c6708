#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages of docs/reference from what the program itself knows. A test fails
when one is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import typer.main
from pydantic.fields import FieldInfo

from gridstead.cli.main import app
from gridstead.config import FILES, ClientSettings, Settings
from gridstead.domain.expiry import MARGIN_BLOCKS, MARGIN_S
from gridstead.domain.lifecycle import COLD, LEGAL, JobState

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
NOTICE = "<!-- Written by tools/reference.py; do not edit. -->\n"
WAITS = (
    "## What ends by itself\n",
    "| a job that is | goes to | after | on DeepSquare 1.2 |",
    "|---|---|---|---|",
    "| META_SCHEDULED | PENDING | `claimJobTimeout` blocks in which its provider claimed nothing | the same |",
    "| SCHEDULED | PANICKED, refunded | `startTimeout` seconds after its claim | stays |",
    "| RUNNING | PANICKED, refunded | `settleGrace` seconds after its paid time or a request to cancel it | stays |\n",
    f"The meta-scheduler asks for it {MARGIN_BLOCKS} blocks or {MARGIN_S} seconds after the contracts would allow it.",
)


def pages() -> dict[str, str]:
    """Return the generated pages by file name."""
    return {"settings.md": settings(), "cli.md": commands(), "lifecycle.md": lifecycle()}


def settings() -> str:
    """Return the page of all settings."""
    lines = [
        NOTICE,
        "# Settings\n",
        "One TOML file a service, `/etc/gridstead/<service>.toml`. Unknown keys are errors.\n",
        "`gridstead check-config <service>` checks a file and contacts nothing.\n",
    ]
    for service, model in sorted(FILES.items()):
        lines += [f"## {service}\n", *_table(model)]
    lines += [
        "## The command line\n",
        "`~/.config/gridstead/client.toml`, or the file that `--config` or `$GRIDSTEAD_CONFIG` names.\n",
    ]
    lines += _table(ClientSettings)
    return "\n".join(lines)


def _table(model: type[Settings]) -> list[str]:
    rows = ["| key | what it is | default or example |", "|---|---|---|"]
    rows += [f"| `{key}` | {text} | {value} |" for key, text, value in _rows(model, "")]
    return [*rows, ""]


def _rows(model: type[Settings], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        table = _table_in(field.annotation)
        if table is not None:
            yield from _rows(table, f"{prefix}{name}.")
            continue
        if get_origin(field.annotation) is tuple and (
            one := _table_in(get_args(field.annotation)[0])
        ):
            yield from _rows(one, f"{prefix}{name}[].")
            continue
        yield f"{prefix}{name}", field.description or "", _value(field)


def _table_in(annotation: Any) -> type[Settings] | None:  # noqa: ANN401 - any type
    if get_origin(annotation) in {Union, UnionType}:
        return next((found for one in get_args(annotation) if (found := _table_in(one))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, Settings) else None


def _value(field: FieldInfo) -> str:
    if field.is_required():
        example = f", such as `{field.examples[0]}`" if field.examples else ""
        return f"required{example}"
    return "none" if field.default is None else f"`{field.default}`"


def commands() -> str:
    """Return the page of all commands."""
    lines = [NOTICE, "# Commands\n"]
    lines += _command(typer.main.get_command(app), "gridstead")
    return "\n".join(lines)


def _command(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - typer has a click of its own
    groups = getattr(command, "commands", None)
    if groups is not None:
        for name in sorted(groups):
            yield from _command(groups[name], f"{path} {name}")
        return
    yield f"## {path}\n"
    yield f"{cleandoc(command.help or '')}\n"
    for parameter in command.params:
        if parameter.name == "help":
            continue
        shown = (
            "`, `".join(parameter.opts)
            if parameter.param_type_name == "option"
            else (parameter.metavar or parameter.name or "").upper()
        )
        yield f"- `{shown}`: {getattr(parameter, 'help', '') or ''}"
    yield ""


def lifecycle() -> str:
    """Return the page of the life of a job."""
    lines = [
        NOTICE,
        "# The life of a job\n",
        "Rows may move to columns marked with x. Cold states are never left; their money is settled.\n",
        "| from | " + " | ".join(state.name for state in JobState) + " |",
        "|---" * (len(JobState) + 1) + "|",
    ]
    for state in JobState:
        cells = ["x" if to in LEGAL[state] else "" for to in JobState]
        lines.append(
            f"| {state.name}{' (cold)' if state in COLD else ''} | " + " | ".join(cells) + " |"
        )
    lines += ["", *WAITS]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the pages."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
