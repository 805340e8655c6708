# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CONFIG_VARIABLE = "GRIDSTEAD_CONFIG"

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help=f"Settings file; default ${CONFIG_VARIABLE} or ~/.config/gridstead/client.toml.",
    ),
]
ServiceConfig = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; default /etc/gridstead/<service>.toml."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobNumber = Annotated[
    str, typer.Argument(metavar="JOB", help="Job number, decimal or hexadecimal with 0x.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Fail if a field is in a wrong place, instead of warning.")
]


def settings_path(service: str, config: Path | None) -> Path:
    """Return the path of a service's settings file."""
    return config or Path("/etc/gridstead") / f"{service}.toml"
