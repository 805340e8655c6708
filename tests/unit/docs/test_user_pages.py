# SPDX-License-Identifier: Apache-2.0
"""Tests that the programs accept the examples in docs/howto/use-the-grid.md."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer.main

from gridstead.cli.main import app
from gridstead.config import ClientSettings
from gridstead.workflow.parse import check_workflow

PAGE = Path(__file__).resolve().parents[3] / "docs/howto/use-the-grid.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def blocks(language):
    """Return the texts of the code blocks in a language."""
    return [text for name, text in BLOCKS if name == language]


def command_lines():
    lines = "".join(blocks("sh")).splitlines()
    return [line for line in lines if line.startswith("gridstead ")]


def test_page_has_blocks_of_each_language():
    assert {name for name, _ in BLOCKS} == {"sh", "toml", "yaml"}


@pytest.mark.parametrize("text", blocks("yaml"))
def test_workflow_of_the_page_is_valid(text):
    checked_workflow = check_workflow(text, strict=True)

    assert checked_workflow.warnings == ()


@pytest.mark.parametrize("text", blocks("toml"))
def test_settings_of_the_page_are_valid(text):
    ClientSettings.model_validate(tomllib.loads(text))


@pytest.mark.parametrize("line", command_lines())
def test_command_and_options_of_the_page_exist(line):
    command = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        subcommand = words.pop(0)
        command = command.commands[subcommand]

    context = command.make_context("gridstead", words, resilient_parsing=False)

    assert not hasattr(command, "commands"), "the command lacks a subcommand"
    assert context.args == []
