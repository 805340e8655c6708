# SPDX-License-Identifier: Apache-2.0
"""How the command line speaks."""

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
    say,
)
from gridstead.errors import InvalidInput

SERVICES_RUN = {"run", "fetch", "mount"}


def commands(command, path=()):
    """Yield each command with its words."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


ALL = dict(commands(typer.main.get_command(app)))


@given(st.integers(0, 2**256 - 1))
def test_an_amount_is_read_back_as_it_was_shown(wei):
    assert parse_credits(credits_text(wei)) == wei


def test_strangers_text_is_neither_markup_nor_control(capsys):
    evil = "[/bold][red]x\x1b[2J\u202e"

    say(evil)
    emit_table(("A",), [(evil,)])
    emit_record({"a": evil})

    out = capsys.readouterr().out
    assert out.count("[/bold][red]x\\x1b[2J\\u202e") == 3
    assert "\x1b" not in out


def test_an_error_stands_on_stderr_in_three_parts(capsys):
    emit_error(InvalidInput("cannot do it", detail="[a] fact", hint="Do something else."))

    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: cannot do it\n  [a] fact\n  hint: Do something else.\n"


def test_an_error_as_json_has_its_code(capsys):
    emit_error(InvalidInput("cannot do it"), as_json=True)

    told = json.loads(capsys.readouterr().err)["error"]
    assert told == {
        "code": "invalid-input",
        "message": "cannot do it",
        "detail": None,
        "hint": None,
        "exit_code": 65,
    }


def test_the_version_is_told(gridstead):
    done = gridstead("--version")

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("gridstead ")


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_and_option_is_explained(words):
    command = ALL[words]

    assert command.help
    assert [p.name for p in command.params if not getattr(p, "help", None)] == []


JSON_ALONE = {("workflow", "schema")}


@pytest.mark.parametrize(
    "words",
    [words for words in ALL if words[-1] not in SERVICES_RUN and words not in JSON_ALONE],
    ids=" ".join,
)
def test_every_command_but_the_services_can_answer_in_json(words):
    assert any("--json" in p.opts for p in ALL[words].params)


@pytest.mark.parametrize("words", sorted(JSON_ALONE), ids=" ".join)
def test_what_is_json_alone_needs_no_option(gridstead, words):
    assert json.loads(gridstead(*words).out)
