# SPDX-License-Identifier: Apache-2.0
"""A process that ends while a signal is passed on to it: the code is its own, not that of the signal."""

from __future__ import annotations

import subprocess
from importlib.resources import files

import pytest

TEMPLATES = files("gridstead.workflow") / "templates"
# The process has ended, and bash knows it, before anybody asks whether it lives.
SLOW = 'kill() { if [[ $1 == -0 ]]; then sleep 0.5; fi; builtin kill "$@"; }'
ENDING = "trap 'exit 9' {signal}; kill -{signal} $PPID; sleep 0.2; exit 9"


@pytest.mark.parametrize(
    ("template", "signal", "words"),
    [
        ("passing_on.sh", "INT", "catch_signals; run_passing_on bash -c '{ending}'"),
        ("passing_on.sh", "TERM", "catch_signals; run_passing_on bash -c '{ending}'"),
        ("branch.sh", "TERM", "ended=0 storage=/nonexistent; begin_branch; bash -c '{ending}' & end_of $!"),
    ],
)
def test_process_that_ends_while_it_is_told_of_a_signal_keeps_its_code(template, signal, words):
    ending = ENDING.format(signal=signal).replace("'", "'\\''")
    script = f"{SLOW}\n{(TEMPLATES / template).read_text()}\n{words.format(ending=ending)}"

    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20, check=False)

    assert (ended.returncode, ended.stderr) == (9, "")
