# SPDX-License-Identifier: Apache-2.0
"""Tests that the examples in docs/howto/coming-from-deepsquare.md work."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import typer.main
from eth_account import Account
from tests.unit.docs.pages import HOWTO, blocks, check_command, command_lines

from gridstead.cli.main import app

PAGE = "coming-from-deepsquare.md"
PRIVATE_KEY = "0x" + "42" * 32


def rows():
    """Return the cells of each row of the tables, without the headings."""
    rows_of_tables = []
    for line in (HOWTO / PAGE).read_text().splitlines():
        if not line.startswith("|"):
            continue
        # Split at each | except \|.
        _, *cells, _ = re.split(r"(?<!\\)\|", line)
        if "what to do" not in cells[-1]:
            rows_of_tables.append([cell.strip() for cell in cells])
    return rows_of_tables


@pytest.mark.parametrize("line", command_lines(PAGE))
def test_command_and_options_of_the_page_exist(line):
    check_command(line)


def test_each_difference_says_what_to_do():
    text = (HOWTO / PAGE).read_text()
    command_table = text.partition("## Commands")[2].partition("## ")[0]

    for cells in rows():
        assert len(cells) == 3, cells
        if cells[0] not in command_table:
            assert all(cells), cells


def test_each_command_of_the_table_exists():
    """A cell such as `gridstead credit balance`, `transfer` names two subcommands."""
    table = (HOWTO / PAGE).read_text().partition("## Commands")[2].partition("## ")[0]
    cells = [line.split(" | ")[1] for line in table.splitlines() if "`gridstead " in line]
    commands = [re.findall(r"`([^`]+)`", cell) for cell in cells]

    assert len(commands) >= 9
    for first_command, *others in commands:
        _, name, *arguments = first_command.split()
        command = typer.main.get_command(app).commands[name]
        if hasattr(command, "commands"):
            further_subcommands = {word for word in others if not word.startswith("gridstead")}
            assert {arguments[0]} | further_subcommands <= command.commands.keys()


def test_the_key_of_deepsquares_client_becomes_a_wallet(tmp_path):
    (tmp_path / ".dps").mkdir()
    (tmp_path / ".dps/key").write_text(PRIVATE_KEY + "\n")
    (tmp_path / "wallet.password").write_text("a password\n")
    (program,) = blocks(PAGE, "python")

    subprocess.run([sys.executable, "-c", program], env={"HOME": str(tmp_path)}, check=True)

    wallet = tmp_path / "wallet.json"
    assert wallet.stat().st_mode & 0o777 == 0o600
    key = Account.decrypt(json.loads(wallet.read_text()), "a password")
    assert key.to_0x_hex() == PRIVATE_KEY
