# SPDX-License-Identifier: Apache-2.0
"""The shell function ``run_forwarding_signals``: its exit code, and signals at any time."""

from __future__ import annotations

import subprocess
from importlib.resources import files

import pytest

TEMPLATES = files("gridstead.workflow") / "templates"
FORWARD_SIGNALS = (TEMPLATES / "forward_signals.sh").read_text()
# A shell function that replaces the command kill. It delays ``kill -0``, which checks whether a
# process exists, until bash has noticed the end of the process.
DELAYED_KILL = 'export top=$$; kill() { if [[ $1 == -0 ]]; then sleep 0.5; fi; builtin kill "$@"; }'


def run(command, *, before="", between=""):
    """Run a command in a shell that forwards signals, and return the exit code and the output.

    Args:
        command: The command. It can read the process id of the shell from ``$top``.
        before: Code that runs before the shell catches signals.
        between: Code that runs after the shell catches signals and before the command.
    """
    script = (
        f"{DELAYED_KILL}\n{FORWARD_SIGNALS}\n{before}\ncatch_signals\n{between}\n"
        f"run_forwarding_signals {command}"
    )
    # The process that runs the tests may ignore some signals.
    arguments = ["env", "--default-signal", "bash", "-c", script]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=20, check=False)
    return result.returncode, result.stdout


@pytest.mark.parametrize("signal", ["HUP", "INT", "QUIT", "USR1", "TERM"])
def test_a_process_that_ends_after_a_signal_keeps_its_exit_code(signal):
    endless = "for each in {1..150}; do sleep 0.1; done; exit 8"
    trap = f'trap "echo trapped; exit 9" {signal}'

    result = run(f"bash -c '{trap}; kill -{signal} $top; {endless}'")

    assert result == (9, "trapped\n")


def test_a_signal_before_the_start_of_the_process_is_forwarded():
    assert run("sleep 15", between="kill -TERM $$") == (143, "")


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("bash -c 'exit 7'", 7), ("bash -c 'kill -TERM $$'", 143)]
)
def test_the_exit_code_of_the_command_is_returned(command, code):
    assert run(command) == (code, "")


def test_no_exit_code_is_lost_when_commands_end_just_before_five_seconds():
    """Fifty commands end at different times between 4.9 and 5 seconds after their start.

    An implementation that waits with a timeout of five seconds would lose some of the exit codes.
    """
    each = "(catch_signals; run_forwarding_signals sleep $seconds; echo $?) &"

    _, output = run("true", before=f"for seconds in 4.{{900..999..2}}; do {each} done; wait")

    assert output.split() == ["0"] * 50


def test_the_command_has_the_same_open_files_as_the_shell():
    in_command = run("bash -c 'echo /proc/self/fd/*'", before="exec 3>&-")
    in_shell = run("true", before="exec 3>&-; echo /proc/self/fd/*")

    assert in_command == in_shell


def test_a_command_that_kills_its_parent_shell_has_failed():
    assert run("bash -c 'kill -KILL $PPID'") == (137, "")
