# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the pages for grid users."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import typer.main

from gridstead.cli.main import app

HOWTO = Path(__file__).resolve().parents[3] / "docs/howto"


def blocks_of(page):
    """Return (language, text) of each code block of a page in docs/howto."""
    text = (HOWTO / page).read_text()
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def blocks(page, language):
    """Return the texts of the code blocks in a language."""
    return [text for name, text in blocks_of(page) if name == language]


def command_lines(page):
    """Return the lines of the page's shell blocks that run gridstead."""
    lines = "".join(blocks(page, "sh")).splitlines()
    return [line for line in lines if line.startswith("gridstead ")]


def check_command(line):
    """Check that the command of a line and its options exist."""
    command = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        subcommand = words.pop(0)
        command = command.commands[subcommand]

    context = command.make_context("gridstead", words, resilient_parsing=False)

    assert not hasattr(command, "commands"), "the command lacks a subcommand"
    assert context.args == []
