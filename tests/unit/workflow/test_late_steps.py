# SPDX-License-Identifier: Apache-2.0
"""Steps that would begin while what they are in is told to end, as the rendered script keeps them
from it.
"""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import SRUN, steps, workflow

# Comes between the look for processes and the first signal: lets the branch go on until a step of
# it runs, a shell waits for the signal, or the branch is gone.
BETWEEN = r"""
kill() {
  if [[ $1 == -s && ! -e ~/looked ]]; then
    echo >~/looked
    until [[ -e ~/ran || -e ~/waits ]] || ! builtin kill -0 "$4" 2>/dev/null; do :; done
  fi
  builtin kill "$@"
}
"""
HELD = "$(echo >~/held; while [ ! -e ~/looked ]; do :; done) = ''"
FAILS = "while [ ! -e ~/held ]; do :; done; exit 3"


def late(**fields):
    """A step that is forked after the look."""
    return {"if": HELD, "run": {"command": "sleep 5; echo never"}, **fields}


@pytest.fixture
def node(node):
    with (node.home / ".bash_profile").open("a") as profile:
        profile.write(BETWEEN)
    node.add("srun", SRUN.replace("\n", "\nif [[ $* == *never* ]]; then echo >~/ran; fi\n", 1))
    node.add(
        "sleep", '#!/bin/bash\nif [[ $1 == 0.1 ]]; then echo >~/waits; fi\nexec /bin/sleep "$@"\n'
    )
    return node


@pytest.mark.parametrize("number", [1, 2, 3, 9, 10, 15])
def test_step_does_not_begin_in_a_launch_that_is_told_to_end(node, number):
    launch = {"launch": {"signalOnParentStepExit": number, "steps": steps(late())}}

    code, output = node.run(workflow(launch, FAILS))

    assert (code, "never" in output, len(node.calls), node.left) == (3, False, 1, [])


def test_signal_that_ends_nothing_keeps_no_step_from_beginning(node):
    launch = {
        "launch": {
            "signalOnParentStepExit": 28,
            "steps": steps(late(run={"command": ": never; echo ran"})),
        }
    }

    assert node.run(workflow(launch, FAILS)) == (3, "ran\n")


def test_what_comes_last_runs_though_the_step_did_not_begin(node):
    caught = late(catch=steps("echo caught"), **{"finally": steps("echo last")})

    code, output = node.run(workflow({"launch": {"steps": steps(caught)}}, FAILS))

    assert (code, output) == (3, "last\n")


def test_round_does_not_begin_in_a_launch_that_was_killed(node):
    """Nobody is left to tell it."""
    group = {"steps": steps("echo never"), "finally": steps("true")}
    rounds = {"for": {"parallel": True, "items": ["a"], "steps": steps(group)}}
    launch = {"launch": {"signalOnParentStepExit": 9, "steps": steps({"if": HELD, **rounds})}}

    code, output = node.run(workflow(launch, FAILS), patience_s=20)

    assert (code, "never" in output, len(node.calls), node.left) == (3, False, 1, [])


def test_launch_of_the_next_round_begins_though_that_of_the_last_was_told_to_end(node):
    (node.home / "looked").touch()  # nothing is held
    launch = {"launch": {"steps": steps('echo >~/"at-$item"; sleep 20')}}
    failing = {
        "steps": steps(launch, 'while [ ! -e ~/"at-$item" ]; do :; done; exit 3'),
        "catch": steps('echo "caught $item"'),
    }

    code, output = node.run(
        workflow({"for": {"parallel": False, "items": ["a", "b"], "steps": [failing]}})
    )

    assert (code, output.count("caught a\n"), output.count("caught b\n")) == (0, 1, 1)
