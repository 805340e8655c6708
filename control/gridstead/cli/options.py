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
        help=f"Your settings file. Default: ${CONFIG_VARIABLE} or ~/.config/gridstead/client.toml.",
    ),
]
ServiceConfig = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file. Default: /etc/gridstead/<service>.toml."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JobNumber = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Number of the job: decimal, or hexadecimal such as 0x7."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Report a key that has no effect as an error instead of a warning."
    ),
]


def service_settings_path(service: str, config: Path | None) -> Path:
    """Return the path of a service's settings file."""
    return config or Path("/etc/gridstead") / f"{service}.toml"
