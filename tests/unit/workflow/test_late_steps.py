# SPDX-License-Identifier: Apache-2.0
"""A step does not start while a signal ends its launch or its parallel iteration."""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import SRUN, steps, workflow

# Runs between the search for processes and the first signal. The branch continues until one of its
# steps runs, a shell waits for the signal, or the branch has ended.
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
    """Return a step that is forked after the search for processes."""
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
def test_a_step_does_not_start_in_a_launch_that_is_ended(node, number):
    launch = {"launch": {"signalOnParentStepExit": number, "steps": steps(late())}}

    code, output = node.run(workflow(launch, FAILS))

    assert (code, "never" in output, len(node.calls), node.left) == (3, False, 1, [])


def test_a_signal_that_does_not_terminate_prevents_no_step(node):
    launch = {
        "launch": {
            "signalOnParentStepExit": 28,
            "steps": steps(late(run={"command": ": never; echo ran"})),
        }
    }

    assert node.run(workflow(launch, FAILS)) == (3, "ran\n")


def test_finally_steps_run_although_the_step_did_not_start(node):
    caught = late(catch=steps("echo caught"), **{"finally": steps("echo last")})

    code, output = node.run(workflow({"launch": {"steps": steps(caught)}}, FAILS))

    assert (code, output) == (3, "last\n")


def test_an_iteration_does_not_start_in_a_launch_that_was_killed(node):
    """No process is left that could signal the iteration."""
    group = {"steps": steps("echo never"), "finally": steps("true")}
    loop = {"for": {"parallel": True, "items": ["a"], "steps": steps(group)}}
    launch = {"launch": {"signalOnParentStepExit": 9, "steps": steps({"if": HELD, **loop})}}

    code, output = node.run(workflow(launch, FAILS), patience_s=20)

    assert (code, "never" in output, len(node.calls), node.left) == (3, False, 1, [])


def test_a_launch_of_the_next_iteration_starts_after_the_previous_one_was_ended(node):
    (node.home / "looked").touch()  # so that no step waits
    launch = {"launch": {"steps": steps('echo >~/"at-$item"; sleep 20')}}
    failing = {
        "steps": steps(launch, 'while [ ! -e ~/"at-$item" ]; do :; done; exit 3'),
        "catch": steps('echo "caught $item"'),
    }

    code, output = node.run(
        workflow({"for": {"parallel": False, "items": ["a", "b"], "steps": [failing]}})
    )

    assert (code, output.count("caught a\n"), output.count("caught b\n")) == (0, 1, 1)
