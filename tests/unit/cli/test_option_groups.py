# SPDX-License-Identifier: Apache-2.0
"""Groups of options. A group is a dataclass whose fields become options of a command.

The function of the command receives all options of a group as one object of the dataclass.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from gridstead.cli.option_groups import expanded


@dataclass(frozen=True, kw_only=True)
class Server:
    host: Annotated[str, typer.Option("--host", help="The host.")]
    port: Annotated[int, typer.Option("--port", help="The port.")] = 1


@dataclass(frozen=True, kw_only=True)
class Credentials:
    key: Annotated[str, typer.Option("--key", help="The key.")]


OtherHostOption = Annotated[str, typer.Option("--host", help="The other host.")]


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, arguments)


def test_options_of_a_group_are_passed_as_one_object():
    received_options = []

    @expanded()
    def command(
        name: Annotated[str, typer.Argument()], server: Server, credentials: Credentials
    ) -> None:
        received_options.append((name, server, credentials))

    result = run(command, "a", "--host", "b", "--port", "2", "--key", "c")

    assert result.exit_code == 0
    assert received_options == [("a", Server(host="b", port=2), Credentials(key="c"))]


def test_options_without_a_default_come_first():
    @expanded()
    def command(
        server: Server, credentials: Credentials, count: Annotated[int, typer.Option()] = 0
    ) -> None:
        """Do nothing."""

    assert list(inspect.signature(command).parameters) == ["host", "key", "port", "count"]


def test_excluded_option_is_refused_and_its_field_has_the_default():
    received_options = []

    @expanded(without={"port"})
    def command(server: Server) -> None:
        received_options.append(server)

    assert run(command, "--host", "b", "--port", "2").exit_code == 2
    assert run(command, "--host", "b").exit_code == 0
    assert received_options == [Server(host="b", port=1)]


def test_command_can_replace_the_help_of_an_option():
    @expanded(instead={"host": OtherHostOption})
    def command(server: Server) -> None:
        """Do nothing."""

    help_text = run(command, "--help").output

    assert "The other host." in help_text
    assert "The port." in help_text


def test_field_without_default_is_a_required_option():
    @expanded()
    def command(server: Server) -> None:
        """Do nothing."""

    assert run(command, "--port", "2").exit_code == 2
