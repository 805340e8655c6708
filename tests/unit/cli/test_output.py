# SPDX-License-Identifier: Apache-2.0
"""The output of the command line."""

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

SERVICES_RUN = {"run", "fetch", "mount"}


def commands(command, path=()):
    """Yield the path and the object of each command."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


ALL = dict(commands(typer.main.get_command(app)))


@given(st.integers(0, 2**256 - 1))
def test_parse_credits_reverses_credits_text(wei):
    assert parse_credits(credits_text(wei)) == wei


def test_text_is_not_interpreted_as_markup_or_control_characters(capsys):
    evil = "[/bold][red]x\x1b[2J\u202e"

    print_line(evil)
    emit_table(("A",), [(evil,)])
    emit_record({"a": evil})

    out = capsys.readouterr().out
    assert out.count("[/bold][red]x\\x1b[2J\\u202e") == 3
    assert "\x1b" not in out


def test_error_is_printed_on_stderr_with_detail_and_hint(capsys):
    emit_error(InvalidInput("cannot do it", detail="[a] fact", hint="Do something else."))

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: cannot do it\n  [a] fact\n  hint: Do something else.\n"


def test_error_json_has_its_code(capsys):
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
    done = gridstead("--version")

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("gridstead ")


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_and_option_has_a_help_text(path):
    command = ALL[path]

    assert command.help
    assert [p.name for p in command.params if not getattr(p, "help", None)] == []


JSON_ONLY = {("workflow", "schema")}


@pytest.mark.parametrize(
    "path",
    [path for path in ALL if path[-1] not in SERVICES_RUN and path not in JSON_ONLY],
    ids=" ".join,
)
def test_every_command_except_services_has_json_option(path):
    assert any("--json" in p.opts for p in ALL[path].params)


@pytest.mark.parametrize("path", sorted(JSON_ONLY), ids=" ".join)
def test_json_only_command_prints_json_without_option(gridstead, path):
    assert json.loads(gridstead(*path).out)
