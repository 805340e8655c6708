# SPDX-License-Identifier: Apache-2.0
"""Steps that would start while a signal ends their launch or their parallel iteration."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import SRUN, steps, workflow

# Replaces ``kill`` in the script, which calls it after a search for the processes of the branch.
# ``~/searched`` shows the branch that the search has ended. The first signal is delayed until a
# step runs, a shell waits for the signal, or the branch has ended.
DELAYED_KILL = r"""
kill() {
  if [[ $1 == -s && ! -e ~/searched ]]; then
    echo >~/searched
    until [[ -e ~/ran || -e ~/waits ]] || ! builtin kill -0 "$4" 2>/dev/null; do :; done
  fi
  builtin kill "$@"
}
"""
# A condition that waits until the script has searched for the processes of the branch.
WAIT_FOR_SEARCH = "$(echo >~/held; while [ ! -e ~/searched ]; do :; done) = ''"
WAIT_AND_FAIL = "while [ ! -e ~/held ]; do :; done; exit 3"


def late_step(**fields):
    """Return a step that is forked after the script has searched for processes."""
    return {"if": WAIT_FOR_SEARCH, "run": {"command": "sleep 5; echo never"}, **fields}


@pytest.fixture
def node(node):
    """Return a node with ``DELAYED_KILL`` and programs that report when a step or a shell waits."""
    with (node.home / ".bash_profile").open("a") as profile:
        profile.write(DELAYED_KILL)
    node.add_program(
        "srun", SRUN.replace("\n", "\nif [[ $* == *never* ]]; then echo >~/ran; fi\n", 1)
    )
    node.add_program(
        "sleep", '#!/bin/bash\nif [[ $1 == 0.1 ]]; then echo >~/waits; fi\nexec /bin/sleep "$@"\n'
    )
    return node


@pytest.mark.parametrize("signal_number", [1, 2, 3, 9, 10, 15])
def test_a_step_does_not_start_in_a_launch_that_is_ended(node, signal_number):
    launch = {"launch": {"signalOnParentStepExit": signal_number, "steps": steps(late_step())}}

    code, output = node.run(workflow(launch, WAIT_AND_FAIL))

    assert code == 3
    assert "never" not in output
    assert len(node.srun_calls) == 1
    assert node.leftover_files == []


def test_a_step_starts_if_the_signal_terminates_no_process(node):
    launch = {
        "launch": {
            "signalOnParentStepExit": 28,
            "steps": steps(late_step(run={"command": ": never; echo ran"})),
        }
    }

    assert node.run(workflow(launch, WAIT_AND_FAIL)) == (3, "ran\n")


def test_finally_steps_run_although_their_step_did_not_start(node):
    step = late_step(catch=steps("echo caught"), **{"finally": steps("echo last")})

    code, output = node.run(workflow({"launch": {"steps": steps(step)}}, WAIT_AND_FAIL))

    assert (code, output) == (3, "last\n")


def test_an_iteration_does_not_start_in_a_launch_that_was_killed(node):
    """SIGKILL leaves no process that could forward a signal to the iteration."""
    group = {"steps": steps("echo never"), "finally": steps("true")}
    loop = {"for": {"parallel": True, "items": ["a"], "steps": steps(group)}}
    launch = {
        "launch": {"signalOnParentStepExit": 9, "steps": steps({"if": WAIT_FOR_SEARCH, **loop})}
    }

    code, output = node.run(workflow(launch, WAIT_AND_FAIL), timeout_s=20)

    assert code == 3
    assert "never" not in output
    assert len(node.srun_calls) == 1
    assert node.leftover_files == []


def test_a_launch_of_the_next_iteration_starts_after_the_previous_launch_was_ended(node):
    (node.home / "searched").touch()  # no step waits
    launch = {"launch": {"steps": steps('echo >~/"at-$item"; sleep 20')}}
    failing = {
        "steps": steps(launch, 'while [ ! -e ~/"at-$item" ]; do :; done; exit 3'),
        "catch": steps('echo "caught $item"'),
    }

    code, output = node.run(
        workflow({"for": {"parallel": False, "items": ["a", "b"], "steps": [failing]}})
    )

    assert code == 0
    assert output.count("caught a\n") == 1
    assert output.count("caught b\n") == 1
