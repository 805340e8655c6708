# SPDX-License-Identifier: Apache-2.0
"""A shell that forwards signals returns the exit code of its words, whenever a signal arrives."""

from __future__ import annotations

import subprocess
from importlib.resources import files

import pytest

TEMPLATES = files("gridstead.workflow") / "templates"
FORWARD_SIGNALS = (TEMPLATES / "forward_signals.sh").read_text()
# Delays the check whether a process lives, so that bash has noticed the end of the process.
SLOW = 'export top=$$; kill() { if [[ $1 == -0 ]]; then sleep 0.5; fi; builtin kill "$@"; }'


def run(words, *, before="", between=""):
    """Run words in a shell that forwards signals, and return the exit code and the output.

    The words can read the process id of the shell from ``top``.
    """
    script = (
        f"{SLOW}\n{FORWARD_SIGNALS}\n{before}\ncatch_signals\n{between}\n"
        f"run_forwarding_signals {words}"
    )
    # The process that runs the tests may ignore some signals.
    command = ["env", "--default-signal", "bash", "-c", script]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return completed.returncode, completed.stdout


@pytest.mark.parametrize("signal", ["HUP", "INT", "QUIT", "USR1", "TERM"])
def test_a_process_that_ends_after_a_signal_keeps_its_exit_code(signal):
    waits = "for each in {1..150}; do sleep 0.1; done; exit 8"
    trap = f'trap "echo trapped; exit 9" {signal}'

    result = run(f"bash -c '{trap}; kill -{signal} $top; {waits}'")

    assert result == (9, "trapped\n")


def test_a_signal_before_the_start_of_the_process_is_forwarded():
    assert run("sleep 15", between="kill -TERM $$") == (143, "")


@pytest.mark.parametrize(
    ("words", "code"), [("true", 0), ("bash -c 'exit 7'", 7), ("bash -c 'kill -TERM $$'", 143)]
)
def test_the_exit_code_is_that_of_the_words(words, code):
    assert run(words) == (code, "")


def test_the_exit_code_is_returned_whenever_the_words_end():
    """A wait with a time limit may lose a code, and some of these would wait five seconds."""
    each = "(catch_signals; run_forwarding_signals sleep $after; echo $?) &"

    output = run("true", before=f"for after in 4.{{900..999..2}}; do {each} done; wait")[1]

    assert output.split() == ["0"] * 50


def test_the_words_have_the_same_open_files_as_the_shell():
    assert run("bash -c 'echo /proc/self/fd/*'", before="exec 3>&-") == run(
        "true", before="exec 3>&-; echo /proc/self/fd/*"
    )


def test_words_whose_parent_shell_was_killed_have_failed():
    assert run("bash -c 'kill -KILL $PPID'") == (137, "")
