# SPDX-License-Identifier: Apache-2.0
"""The commands of `gridstead`. The module of a command is imported only when the command is used.

Therefore `gridstead --help` and the commands that do not use the chain start quickly, and the
commands of a grid user run without the Python packages that only a site needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from gridstead.distributions import (
    COMMANDS_GROUP,
    DISTRIBUTION_OF,
    installed_entry_points,
    not_installed_error,
    summary,
)


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command of this distribution.

    Attributes:
        help: The line in the list of commands. It is also the help of a group of commands.
        target: ``module:attribute``. The attribute is the Typer application of a group, or the
            function of a command.
    """

    help: str
    target: str


SERVICE_SUMMARIES = MappingProxyType(
    {
        "agent": "Runs on the Slurm controller and executes the supervisor's requests.",
        "benchmarks": "Runs on the Slurm controller and measures the nodes.",
        "job-definitions": (
            "Stores job scripts and gives each one to the provider that runs the job."
        ),
        "ldap-connector": "Creates a directory user for each wallet that requests a job.",
        "logger": "Stores the output of jobs and streams it to their customers.",
        "meta-scheduler": "Matches pending jobs to providers.",
        "supervisor": "Claims jobs, runs them in Slurm, and settles them.",
        "user-directories": "Creates home and cache directories on the shared storage.",
    }
)

_CLIENT_COMMANDS = {
    "workflow": OwnCommand(
        "Create, check and render workflows, the YAML files that describe jobs.",
        "gridstead.cli.workflow:app",
    ),
    "submit": OwnCommand(
        "Submit a workflow: store its script, request a job, and hold credits in escrow.",
        "gridstead.cli.submit:submit",
    ),
    "job": OwnCommand(
        "List, show, cancel and top up jobs, and read their output.", "gridstead.cli.job:app"
    ),
    "decisions": OwnCommand(
        "Show and verify the decisions of the meta-scheduler.", "gridstead.cli.decisions:app"
    ),
    "credit": OwnCommand(
        "Show and transfer credits, and set how many of them the grid may use.",
        "gridstead.cli.credit:app",
    ),
    "provider": OwnCommand(
        "Show and administer providers, and operate your own site: apply, verify, plan.",
        "gridstead.cli.provider:app",
    ),
    "contracts": OwnCommand(
        "Deploy, check and administer the contracts of a grid.", "gridstead.cli.contracts_group:app"
    ),
    "wallet": OwnCommand("Create wallets and print their addresses.", "gridstead.cli.wallet:app"),
    "simulate": OwnCommand(
        "Simulate a grid with several policies of the meta-scheduler, and compare them.",
        "gridstead.cli.simulate:simulate",
    ),
    "devnet": OwnCommand(
        "Set up a grid on a development chain (anvil).", "gridstead.cli.devnet:app"
    ),
    "authorized-keys": OwnCommand(
        "Fetch the supervisor's public SSH keys for a login host.",
        "gridstead.cli.authorized_keys:app",
    ),
    "check-config": OwnCommand(
        "Check the settings file of a service, or of the client.",
        "gridstead.cli.check_config:check_config",
    ),
}
_SERVICE_COMMANDS = {
    name: OwnCommand(text, f"gridstead.cli.service:{name.replace('-', '_')}")
    for name, text in SERVICE_SUMMARIES.items()
}
OWN_COMMANDS = MappingProxyType(_CLIENT_COMMANDS | _SERVICE_COMMANDS)


class LazyCommands(MutableMapping[str, Any]):
    """The commands by name: those of this distribution, then those of other distributions.

    Iteration over the names imports no module of a command. Access to a command imports its module.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a command of Typer's copy of click
        if name not in self._loaded:
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:  # noqa: ANN401 - as above
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"cannot remove command {name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.summaries())

    def __len__(self) -> int:
        return len(self.summaries())

    @staticmethod
    def summaries() -> dict[str, str]:
        """Return the line for each command in the list. Imports no module of a command."""
        lines = {name: command.help for name, command in OWN_COMMANDS.items()}
        for name, entry_point in installed_entry_points(COMMANDS_GROUP).items():
            lines.setdefault(name, summary(entry_point))
        return lines


class GridsteadGroup(TyperGroup):
    """The `gridstead` command, which imports its subcommands only when they are used."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - attributes of click
        super().__init__(**attributes)
        self._lazy_commands = LazyCommands()
        self.commands = self._lazy_commands

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write the list of commands without importing their modules."""
        lines = self._lazy_commands.summaries()
        placeholders = {name: TyperCommand(name, help=text) for name, text in lines.items()}
        group = TyperGroup(commands=cast("dict[str, Any]", placeholders))
        group.format_commands(ctx, formatter)


def _load(name: str) -> Any:  # noqa: ANN401 - a command of Typer's copy of click
    """Import the module of a command and return the command.

    Raises:
        KeyError: If no command has this name.
        ConfigError: If the command belongs to a distribution that is not installed.
    """
    own_command = OWN_COMMANDS.get(name)
    if own_command is None:
        return _as_command(name, _load_installed(name))
    module, _, attribute = own_command.target.partition(":")
    command = _as_command(name, getattr(importlib.import_module(module), attribute))
    command.help = command.help or own_command.help
    return command


def _load_installed(name: str) -> object:
    """Return the Typer application of a command of another distribution."""
    entry_point = installed_entry_points(COMMANDS_GROUP).get(name)
    if entry_point is not None:
        return entry_point.load()
    if name in DISTRIBUTION_OF:
        raise not_installed_error(name)
    raise KeyError(name)


def _as_command(name: str, target: Any) -> Any:  # noqa: ANN401 - a Typer application or a function
    """Return the command of a Typer application or of a function."""
    parent = typer.Typer(rich_markup_mode=None, add_completion=False)
    # Without a callback, Typer drops the name of the only command.
    parent.callback()(lambda: None)
    if isinstance(target, typer.Typer):
        parent.add_typer(target, name=name)
    else:
        parent.command(name)(target)
    return typer.main.get_group(parent).commands[name]
