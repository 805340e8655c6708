# SPDX-License-Identifier: Apache-2.0
"""Tests of the output functions, and of the options that all commands have."""

import json

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from gridstead.cli.main import app
from gridstead.cli.output import (
    credits_text,
    emit_error,
    emit_record,
    emit_table,
    parse_credits,
    print_line,
)
from gridstead.errors import InvalidInput

SERVICE_COMMANDS = {"run", "fetch", "mount"}  # last words of the commands that run services


def commands(command, path=()):
    """Yield each command below a group of commands, with its path.

    The path consists of the words that a user types, such as ``("job", "list")``. The command is an
    object of click.
    """
    is_group = hasattr(command, "commands")
    if not is_group:
        yield path, command
        return
    for name, subcommand in command.commands.items():
        yield from commands(subcommand, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
JSON_COMMANDS = {("workflow", "schema")}  # commands that print only JSON


@given(st.integers(0, 2**256 - 1))
def test_parse_credits_reverses_credits_text(wei):
    assert parse_credits(credits_text(wei)) == wei


def test_markup_and_control_characters_are_printed_as_text(capsys):
    unsafe_text = "[/bold][red]x\x1b[2J\u202e"

    print_line(unsafe_text)
    emit_table(("A",), [(unsafe_text,)])
    emit_record({"a": unsafe_text})

    out = capsys.readouterr().out
    assert out.count("[/bold][red]x\\x1b[2J\\u202e") == 3
    assert "\x1b" not in out


def test_error_is_printed_on_stderr_with_detail_and_hint(capsys):
    emit_error(InvalidInput("cannot do it", detail="[a] detail", hint="Do something else."))

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: cannot do it\n  [a] detail\n  hint: Do something else.\n"


def test_json_of_an_error_has_all_fields(capsys):
    emit_error(InvalidInput("cannot do it"), as_json=True)

    document = json.loads(capsys.readouterr().err)["error"]
    assert document == {
        "code": "invalid-input",
        "message": "cannot do it",
        "detail": None,
        "hint": None,
        "exit_code": 65,
    }


def test_version_is_printed(gridstead):
    result = gridstead("--version")

    assert result.code == 0
    assert result.err == ""
    assert result.out.startswith("gridstead ")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_has_a_help_text(path):
    command = COMMANDS[path]

    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), parameter.name


def commands_with_json_option():
    """Return the paths of the commands that must have the option --json."""
    paths = []
    for path in COMMANDS:
        last_word = path[-1]
        if last_word not in SERVICE_COMMANDS and path not in JSON_COMMANDS:
            paths.append(path)
    return paths


@pytest.mark.parametrize("path", commands_with_json_option(), ids=" ".join)
def test_every_command_that_runs_no_service_has_the_json_option(path):
    assert any("--json" in parameter.opts for parameter in COMMANDS[path].params)


@pytest.mark.parametrize("path", sorted(JSON_COMMANDS), ids=" ".join)
def test_json_only_command_prints_json_without_option(gridstead, path):
    result = gridstead(*path)

    assert json.loads(result.out)
