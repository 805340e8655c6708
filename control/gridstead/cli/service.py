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
    typer.Option("--config", help="Settings file; default /etc/gridstead/<service>.toml."),
]

CLIENT = "client"

_HELP = {
    "agent": "Runs on the Slurm controller and executes the supervisor's requests.",
    "cvmfs": "Replicates CVMFS repositories and serves the replicas.",
    "job-definitions": "Stores job scripts and gives each one to the provider that runs the job.",
    "ldap-connector": "Creates a directory user for each wallet that requests a job.",
    "logger": "Stores the output of jobs and streams it to their customers.",
    "meta-scheduler": "Matches pending jobs to providers.",
    "supervisor": "Claims jobs, runs them in Slurm, and settles them.",
    "user-directories": "Creates home and cache directories on the shared storage.",
}

# The modules of gridstead.wiring whose function ``run`` starts a service.
WIRING = {
    "agent": "slurm",
    "cvmfs": "cvmfs",
    "job-definitions": "definitions.job_definitions",
    "ldap-connector": "users.ldap_connector",
    "logger": "logs",
    "meta-scheduler": "matching",
    "supervisor": "supervisor",
    "user-directories": "users.user_directories",
}


def settings_path(service: str, config: Path | None) -> Path:
    """Return the path of a service's settings file."""
    return config or Path("/etc/gridstead") / f"{service}.toml"


def add_to(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Add a command group with a run command for each service.

    Args:
        app: The application.
        groups: The groups of services that have other commands, by service.
    """
    for service, text in _HELP.items():
        group = groups.get(service, typer.Typer())
        group.info.help, group.info.no_args_is_help = text, True
        run_help = f"{text} Runs until it is stopped, and logs JSON lines on stdout."
        group.command("run", help=run_help)(_runner(service))
        group.callback()(lambda: None)
        app.add_typer(group, name=service)


def _runner(service: str) -> Callable[[Path | None], None]:
    def run(config: Config = None) -> None:
        settings = load(SERVICES[service], settings_path(service, config))
        set_up(settings.log_level)
        module = importlib.import_module(f"gridstead.wiring.{WIRING[service]}")
        module.run(settings)

    return run


def check_config(
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help=f"One of: {CLIENT}, {', '.join(FILES)}.")
    ],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check the settings file of a service, or of the client.

    The command contacts no other program and changes nothing.
    """
    models: dict[str, type[Settings]] = {CLIENT: ClientSettings, **FILES}
    if service not in models:
        raise InvalidInput(
            f"unknown service {service[:80]!r}", hint=f"Give one of: {', '.join(models)}."
        )
    path = settings_file(config) if service == CLIENT else settings_path(service, config)
    load(models[service], path)
    record = {"service": service, "file": str(path), "good": True}
    emit_done(record, f"{path}: good", as_json=as_json)
