# SPDX-License-Identifier: Apache-2.0
"""`gridstead <service> run` and `gridstead check-config <service>`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Json, settings_file
from gridstead.cli.output import emit_done
from gridstead.config import FILES, SERVICES, ClientSettings, Settings, load
from gridstead.errors import InvalidInput
from gridstead.logs import set_up

Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; /etc/gridstead/<service>.toml if not given."),
]

CLIENT = "client"

_HELP = {
    "agent": "On the controller: the supervisor's only way into Slurm.",
    "cvmfs": "Keeps replicas of CVMFS repositories and serves them.",
    "job-definitions": "Takes workflows, keeps scripts, hands them to the provider that holds the job.",
    "ldap-connector": "Makes a directory user of each wallet that asks for a job.",
    "logger": "Keeps jobs' output and streams it to its owner.",
    "meta-scheduler": "Matches pending jobs to providers.",
    "supervisor": "Claims jobs, runs them in Slurm, settles them.",
    "user-directories": "Makes homes and caches on the shared storage.",
}


def settings_path(service: str, config: Path | None) -> Path:
    """Return where a service's settings are."""
    return config or Path("/etc/gridstead") / f"{service}.toml"


def add_to(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Add a group with a run command for each service; some have a group of more commands already."""
    for service, text in _HELP.items():
        group = groups.get(service, typer.Typer())
        group.info.help, group.info.no_args_is_help = text, True
        group.command("run", help=f"{text} Runs until it is stopped; logs JSON lines on stdout.")(
            _runner(service)
        )
        group.callback()(lambda: None)
        app.add_typer(group, name=service)


def _runner(service: str) -> Callable[[Path | None], None]:
    def run(config: Config = None) -> None:
        settings = load(SERVICES[service], settings_path(service, config))
        set_up(settings.log_level)
        module = importlib.import_module(f"gridstead.wiring.{service.replace('-', '_')}")
        module.run(settings)

    return run


def check_config(
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help=f"One of: {CLIENT}, {', '.join(FILES)}.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check the settings file of a service, or of you as a client; contacts nothing and changes
    nothing.
    """
    models: dict[str, type[Settings]] = {CLIENT: ClientSettings, **FILES}
    if service not in models:
        raise InvalidInput(
            f"unknown service {service[:80]!r}", hint=f"Give one of: {', '.join(models)}."
        )
    path = settings_file(config) if service == CLIENT else settings_path(service, config)
    load(models[service], path)
    emit_done(
        {"service": service, "file": str(path), "good": True}, f"{path}: good", as_json=as_json
    )
