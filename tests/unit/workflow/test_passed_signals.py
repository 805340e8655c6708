# SPDX-License-Identifier: Apache-2.0
"""What passes signals on tells the code of what it ran, whenever a signal comes."""

from __future__ import annotations

import subprocess
from importlib.resources import files

import pytest

PASSING_ON = (files("gridstead.workflow") / "templates" / "passing_on.sh").read_text()
# Bash knows that a process has ended before anybody asks whether it lives.
SLOW = 'export top=$$; kill() { if [[ $1 == -0 ]]; then sleep 0.5; fi; builtin kill "$@"; }'


def run(words, *, before="", between=""):
    """Run words in a shell that passes signals on, whose process id they know as ``top``."""
    script = f"{SLOW}\n{PASSING_ON}\n{before}\ncatch_signals\n{between}\nrun_passing_on {words}"
    shell = [
        "env",
        "--default-signal",
        "bash",
        "-c",
        script,
    ]  # whoever runs the tests may ignore some
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=20, check=False)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("signal", ["HUP", "INT", "QUIT", "USR1", "TERM"])
def test_process_that_ends_while_it_is_told_of_a_signal_keeps_its_code(signal):
    waits = "for each in {1..150}; do sleep 0.1; done; exit 8"

    assert run(
        f"""bash -c 'trap "echo told; exit 9" {signal}; kill -{signal} $top; {waits}'"""
    ) == (9, "told\n")


def test_signal_that_comes_before_the_process_is_passed_on():
    assert run("sleep 15", between="kill -TERM $$") == (143, "")


@pytest.mark.parametrize(
    ("words", "code"), [("true", 0), ("bash -c 'exit 7'", 7), ("bash -c 'kill -TERM $$'", 143)]
)
def test_code_is_that_of_the_words(words, code):
    assert run(words) == (code, "")


def test_code_of_words_is_heard_whenever_they_end():
    """A wait with a limit loses what comes as it ends: here some of those would have waited five
    seconds.
    """
    each = "(catch_signals; run_passing_on sleep $after; echo $?) &"

    output = run("true", before=f"for after in 4.{{900..999..2}}; do {each} done; wait")[1]

    assert output.split() == ["0"] * 50


def test_words_have_nothing_open_but_what_was_open():
    assert run("bash -c 'echo /proc/self/fd/*'", before="exec 3>&-") == run(
        "true", before="exec 3>&-; echo /proc/self/fd/*"
    )


def test_words_whose_shell_was_killed_have_failed():
    assert run("bash -c 'kill -KILL $PPID'") == (137, "")
