# SPDX-License-Identifier: Apache-2.0
"""Runs the command line in this process; an unexpected exception fails the test."""

import sys
from dataclasses import dataclass

import pytest

from gridstead.cli.main import main


@dataclass(frozen=True)
class Done:
    """The result of a command: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def gridstead(monkeypatch, capsys):
    """Returns a function that runs `gridstead` with arguments."""
    monkeypatch.delenv("GRIDSTEAD_CONFIG", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gridstead", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return Done(end.value.code or 0, *capsys.readouterr())

    return run
