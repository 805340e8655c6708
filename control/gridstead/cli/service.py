# SPDX-License-Identifier: Apache-2.0
"""`gridstead <service> run`: runs a service until it is stopped."""

from __future__ import annotations

import importlib
import time
from types import MappingProxyType
from typing import Annotated

import typer

from gridstead.cli.commands import SERVICE_SUMMARIES
from gridstead.cli.options import Json, ServiceConfig, service_settings_path
from gridstead.config import SERVICE_SETTINGS, BenchmarksSettings, Service, load

# The module that runs each service.
WIRING = MappingProxyType(
    {
        "agent": "gridstead.wiring.slurm",
        "benchmarks": "gridstead.wiring.benchmarks",
        "job-definitions": "gridstead.wiring.definitions.job_definitions",
        "ldap-connector": "gridstead.wiring.users.ldap_connector",
        "logger": "gridstead.wiring.logs",
        "meta-scheduler": "gridstead.wiring.matching",
        "supervisor": "gridstead.wiring.supervisor",
        "user-directories": "gridstead.wiring.users.user_directories",
    }
)


def add_run(
    app: typer.Typer,
    service: str,
    *,
    text: str,
    model: type[Service],
    wiring: str,
    end: str = "it is stopped",
) -> None:
    """Add the run command of a service to its group of commands.

    Args:
        app: The group of commands.
        service: The name of the service and of its settings file.
        text: What the service does, as a sentence. The help of the command begins with it.
        model: The model of the service's settings.
        wiring: The module whose function ``run`` runs the service. The function receives the
            settings.
        end: Until when the service runs.
    """

    @app.command("run", help=f"{text} Runs until {end}, and logs JSON lines on stdout.")
    def run(config: ServiceConfig = None) -> None:
        settings = load(model, service_settings_path(service, config))
        importlib.import_module("gridstead.logs").set_up(settings.log_level)
        importlib.import_module(wiring).run(settings)


def _group(service: str, **options: str) -> typer.Typer:
    """Return the group of commands of a service of this distribution.

    The options are those of ``add_run``.
    """
    app = typer.Typer(no_args_is_help=True)
    app.callback()(lambda: None)  # Without a callback, Typer drops the name of the only command.
    add_run(
        app,
        service,
        text=SERVICE_SUMMARIES[service],
        model=SERVICE_SETTINGS[service],
        wiring=WIRING[service],
        **options,
    )
    return app


agent = _group("agent")
benchmarks = typer.Typer(no_args_is_help=True)
benchmarks.callback()(lambda: None)
job_definitions = _group("job-definitions")
ldap_connector = _group("ldap-connector")
logger = _group("logger")
meta_scheduler = _group("meta-scheduler")
supervisor = _group("supervisor")
user_directories = _group("user-directories")


@benchmarks.command("run")
def run_benchmarks(
    config: ServiceConfig = None,
    node: Annotated[
        list[str],
        typer.Option("--node", help="Measure this node instead of all nodes. Repeatable."),
    ] = [],  # noqa: B006 # The list is never changed.
    suite: Annotated[
        list[str],
        typer.Option("--suite", help="Run this suite instead of all suites. Repeatable."),
    ] = [],  # noqa: B006 # The list is never changed.
) -> None:
    """Run on the Slurm controller and measure the nodes. Logs JSON lines on stdout.

    Without --node and --suite, the command measures what was requested with `gridstead provider
    benchmark run`, or else the whole site. The labels of a run with --node or --suite are not
    published. Only one run is possible at a time: a second one is refused with exit code 69, or
    waits if it was requested.
    """
    from gridstead.domain.benchmarks.selection import Selection  # noqa: PLC0415 - slow import

    settings = load(BenchmarksSettings, service_settings_path("benchmarks", config))
    importlib.import_module("gridstead.logs").set_up(settings.log_level)
    selection = Selection(nodes=tuple(node), suites=tuple(suite)) if node or suite else None
    importlib.import_module(WIRING["benchmarks"]).run(settings, selection)


@benchmarks.command("status")
def benchmarks_status(config: ServiceConfig = None, as_json: Json = False) -> None:
    """Show on the Slurm controller when the last run of the whole site ended, and its slow nodes.

    On the host of the supervisor, `gridstead provider benchmark report` shows the whole report.
    """
    from gridstead.cli.benchmark_output import emit_status  # noqa: PLC0415 - slow import

    settings = load(BenchmarksSettings, service_settings_path("benchmarks", config))
    # The agent logs which files are not reports.
    importlib.import_module("gridstead.logs").set_up("error")
    report = importlib.import_module(WIRING["benchmarks"]).last_report(settings)
    emit_status(report, now=int(time.time()), as_json=as_json)
