# SPDX-License-Identifier: Apache-2.0
"""A step must not start after a signal has ended the branch that contains the step.

A branch is a launch or a parallel iteration. To end a branch, the script searches for the processes
of the branch, and then sends the signal to them with ``kill``. A late step is a step whose
processes are created after this search, so they do not receive the signal.

The tests use these files in the home folder:

- ``condition-reached``: the condition of the late step is being evaluated
- ``searched``: the script has searched for the processes of the branch
- ``ran``: the late step runs
- ``waits``: a shell of the script waits for a signal
"""

from __future__ import annotations

import pytest
from tests.unit.workflow.node import SRUN, steps, workflow

# Replaces ``kill`` in the script, which calls ``kill -s SIGNAL -- PID`` after the search. The first
# call creates ``~/searched``. Then it delays the signal until the late step runs, a shell waits for
# the signal, or the process has ended.
DELAYED_KILL = r"""
kill() {
  if [[ $1 == -s && ! -e ~/searched ]]; then
    echo >~/searched
    until [[ -e ~/ran || -e ~/waits ]] || ! builtin kill -0 "$4" 2>/dev/null; do :; done
  fi
  builtin kill "$@"
}
"""
# A condition that waits for the search. The condition is true, because its commands print nothing.
WAIT_FOR_SEARCH = "$(echo >~/condition-reached; while [ ! -e ~/searched ]; do :; done) = ''"
# A failure of this step ends the launched steps of its list.
WAIT_AND_FAIL = "while [ ! -e ~/condition-reached ]; do :; done; exit 3"
# The simulated srun reports only commands that contain the word "never".
REPORT_RUN = "if [[ $* == *never* ]]; then echo >~/ran; fi"
# The script calls ``sleep 0.1`` while it waits for a signal.
REPORTING_SLEEP = '#!/bin/bash\nif [[ $1 == 0.1 ]]; then echo >~/waits; fi\nexec /bin/sleep "$@"\n'


def late_step(**fields):
    """Return a step whose processes are created after the search."""
    return {"if": WAIT_FOR_SEARCH, "run": {"command": "sleep 5; echo never"}, **fields}


@pytest.fixture
def node(node):
    """Return a node on which ``kill`` is delayed, and ``srun`` and ``sleep`` report their calls."""
    with (node.home / ".bash_profile").open("a") as profile:
        profile.write(DELAYED_KILL)
    # The report follows the first line, "#!/bin/bash".
    node.add_program("srun", SRUN.replace("\n", f"\n{REPORT_RUN}\n", 1))
    node.add_program("sleep", REPORTING_SLEEP)
    return node


@pytest.mark.parametrize("signal_number", [1, 2, 3, 9, 10, 15])
def test_a_step_does_not_start_in_a_launch_that_is_ended(node, signal_number):
    launch = {"launch": {"signalOnParentStepExit": signal_number, "steps": steps(late_step())}}

    code, output = node.run(workflow(launch, WAIT_AND_FAIL))

    assert code == 3
    assert "never" not in output
    assert len(node.srun_calls) == 1  # the step WAIT_AND_FAIL
    assert node.leftover_files == []


def test_a_step_starts_if_the_signal_terminates_no_process(node):
    # 28 is SIGWINCH, which a process ignores by default. The word "never" in the command makes the
    # simulated srun report the step.
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
    assert len(node.srun_calls) == 1  # the step WAIT_AND_FAIL
    assert node.leftover_files == []


def test_a_launch_of_the_next_iteration_starts_after_the_previous_launch_was_ended(node):
    (node.home / "searched").touch()  # so that kill is not delayed
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
