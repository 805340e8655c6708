# SPDX-License-Identifier: Apache-2.0
"""A fixture that runs the command line in this process. An unexpected exception fails the test."""

import sys
from dataclasses import dataclass

import pytest

from gridstead.cli.main import main


@dataclass(frozen=True)
class CommandResult:
    """What a command returned and printed: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def gridstead(monkeypatch, capsys):
    """Return a function that runs `gridstead` with arguments."""
    monkeypatch.delenv("GRIDSTEAD_CONFIG", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gridstead", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_info:
            main()
        printed = capsys.readouterr()
        return CommandResult(code=exit_info.value.code or 0, out=printed.out, err=printed.err)

    return run
