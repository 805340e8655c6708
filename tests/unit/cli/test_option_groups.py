# SPDX-License-Identifier: Apache-2.0
"""Groups of options: the fields are options of the command, which receives them as one value."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from gridstead.cli.option_groups import expanded


@dataclass(frozen=True, kw_only=True)
class Place:
    host: Annotated[str, typer.Option("--host", help="Where.")]
    port: Annotated[int, typer.Option("--port", help="Which.")] = 1


@dataclass(frozen=True, kw_only=True)
class Way:
    key: Annotated[str, typer.Option("--key", help="Whose.")]


Other = Annotated[str, typer.Option("--host", help="Where else.")]


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, arguments)


def test_fields_are_options_and_are_passed_as_one_value():
    seen = []

    @expanded()
    def command(name: Annotated[str, typer.Argument()], place: Place, way: Way) -> None:
        seen.append((name, place, way))

    result = run(command, "a", "--host", "b", "--port", "2", "--key", "c")

    assert result.exit_code == 0
    assert seen == [("a", Place(host="b", port=2), Way(key="c"))]


def test_options_without_a_default_come_first():
    @expanded()
    def command(place: Place, way: Way, count: Annotated[int, typer.Option()] = 0) -> None:
        """Do nothing."""

    assert list(inspect.signature(command).parameters) == ["host", "key", "port", "count"]


def test_excluded_field_is_no_option_and_has_its_default():
    seen = []

    @expanded(without={"port"})
    def command(place: Place) -> None:
        seen.append(place)

    assert run(command, "--host", "b", "--port", "2").exit_code == 2
    assert run(command, "--host", "b").exit_code == 0
    assert seen == [Place(host="b", port=1)]


def test_command_can_replace_an_option_text():
    @expanded(instead={"host": Other})
    def command(place: Place) -> None:
        """Do nothing."""

    shown = run(command, "--help").output

    assert "Where else." in shown
    assert "Which." in shown


def test_field_without_default_is_a_required_option():
    @expanded()
    def command(place: Place) -> None:
        """Do nothing."""

    assert run(command, "--port", "2").exit_code == 2
