# SPDX-License-Identifier: Apache-2.0
"""tools/demo.py: what it prints when a command fails."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
sys.path.append(str(CHECKOUT / "tools"))

import demo  # noqa: E402 - its folder is no package

COMMAND = ["/opt/venv/bin/gridstead", "credit", "balance"]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(
            subprocess.CalledProcessError(69, COMMAND, stderr="error: the node does not answer\n"),
            69,
            "error: the node does not answer\ndemo: gridstead credit balance failed\n",
            id="failed",
        ),
        pytest.param(
            subprocess.TimeoutExpired(COMMAND, 300),
            1,
            "demo: gridstead credit balance did not end within 300 s\n",
            id="no end",
        ),
        pytest.param(KeyboardInterrupt(), 130, "demo: interrupted\n", id="interrupt"),
    ],
)
def test_a_failed_command_is_named_without_a_traceback(monkeypatch, capsys, error, code, message):
    def fail():
        raise error

    monkeypatch.setattr(demo, "main", fail)

    assert demo.run() == code
    assert capsys.readouterr().out == message
