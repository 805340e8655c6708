# SPDX-License-Identifier: Apache-2.0
"""Steps that run beside others, as the rendered script runs them."""

from __future__ import annotations

import os
import signal

import pytest
from tests.unit.workflow.node import steps, wait_for, workflow

from gridstead.workflow.render import render


class TestLaunch:
    def test_launched_step_runs_beside_the_rest_and_can_be_waited_for(self, node):
        job = workflow(
            {
                "launch": {
                    "handleName": "Early",
                    "steps": steps("while [ ! -e go ]; do sleep 0.02; done; echo launched"),
                }
            },
            "echo first; touch go",
            {"dependsOn": ["early"], "run": {"command": "echo second"}},
        )

        assert node.run(job) == (0, "first\nlaunched\nsecond\n")

    def test_failure_of_what_is_waited_for_fails_the_step_that_waits(self, node):
        job = workflow(
            {"launch": {"handleName": "a", "steps": steps("exit 6")}},
            {
                "steps": steps({"dependsOn": ["a"], "run": {"command": "echo never"}}),
                "catch": steps("echo $DEEPSQUARE_ERROR_CODE; exit 2"),
            },
            "echo never",
        )

        assert node.run(job) == (2, "6\n")

    def test_every_step_that_waits_sees_the_failure(self, node):
        wait = {
            "steps": steps({"dependsOn": ["a"], "run": {"command": "echo never"}}),
            "catch": steps("echo $DEEPSQUARE_ERROR_CODE"),
        }
        job = workflow({"launch": {"handleName": "a", "steps": steps("exit 6")}}, wait, wait)

        assert node.run(job) == (6, "6\n6\n")

    @pytest.mark.parametrize("number", [1, 2, 3, 9, 15])
    def test_launched_step_gets_its_signal_when_its_list_ends(self, node, number):
        body = f"trap 'echo got; exit 0' {number if number != 9 else 15}; touch started; while true; do sleep 0.02; done"
        launch = {
            "launch": {
                "signalOnParentStepExit": number,
                "steps": steps({"run": {"shell": "/bin/bash", "command": body}}),
            }
        }
        group = {"steps": steps(launch, "while [ ! -e started ]; do sleep 0.02; done")}

        code, output = node.run(workflow(group, "echo after"))

        assert code == 0
        assert output.endswith("after\n" if number == 9 else "got\nafter\n")
        assert ("got" in output) == (number != 9)

    def test_launched_steps_that_are_killed_leave_no_complaint_of_bash(self, node):
        """It would print the source of what it tells of."""
        launches = [
            {"launch": {"signalOnParentStepExit": 9, "steps": steps("sleep 20")}} for _ in range(8)
        ]

        assert node.run(workflow(*launches, "echo here", tasks=9)) == (0, "here\n")

    @pytest.mark.parametrize("container", [False, True])
    def test_signal_of_a_launch_goes_to_the_tasks_by_the_name_of_their_step(self, node, container):
        """Slurm's srun kills its tasks at most signals; a trap of theirs would never run."""
        node.add("scancel", '#!/bin/bash\necho "$@" >>"$HOME/scancel"\ntouch "$HOME/told"\n')
        step = {"run": {"command": "touch ~/at; while [ ! -e ~/told ]; do sleep 0.02; done"}}
        if container:
            node.add("apptainer", '#!/bin/bash\nexec "${@: -3}"\n')
            step["run"]["container"] = {"image": "/some.sqsh", "apptainer": True}
        launch = {"launch": {"signalOnParentStepExit": 15, "steps": steps(step)}}
        group = {
            "steps": steps("touch some.sqsh", launch, "while [ ! -e ~/at ]; do sleep 0.02; done")
        }

        code, output = node.run(workflow(group), SLURM_STEP_ID="7")

        assert (code, output) == (0, "")
        assert (node.home / "scancel").read_text() == "--signal=15 42.7\n"

    def test_srun_takes_one_interrupt_where_a_launch_sends_it(self):
        loop = {"for": {"parallel": False, "items": ["a"], "steps": steps("true")}}
        interrupted = {"launch": {"signalOnParentStepExit": 2, "steps": steps(loop, "true")}}

        text = render(workflow(interrupted, {"launch": {"steps": steps("true")}}, "true"))

        assert text.count("\n  start --job-name=") == 4
        assert text.count(" --quit-on-interrupt ") == 2

    def test_launched_step_without_a_signal_is_awaited(self, node):
        launch = {
            "launch": {"signalOnParentStepExit": 0, "steps": steps("sleep 0.3; echo launched")}
        }

        assert node.run(workflow({"steps": steps(launch)}, "echo after")) == (
            0,
            "launched\nafter\n",
        )

    def test_launched_step_that_fails_by_itself_fails_the_job(self, node):
        """The reference loses it."""
        launch = {"launch": {"steps": steps("touch at; exit 8")}}

        assert (
            node.run(workflow(launch, "while [ ! -e at ]; do sleep 0.02; done; sleep 0.3"))[0] == 8
        )

    def test_what_was_launched_ends_when_a_step_fails(self, node):
        launch = {"launch": {"steps": steps("touch at; sleep 20; echo never")}}

        code, output = node.run(workflow(launch, "while [ ! -e at ]; do sleep 0.02; done; exit 3"))

        assert code == 3
        assert "never" not in output
        assert node.left == []

    def test_handlers_of_a_launched_step_run_beside_and_when_it_gets_its_signal(self, node):
        failing = {
            "launch": {"handleName": "a", "steps": steps("exit 5")},
            "catch": steps("echo $DEEPSQUARE_ERROR_CODE"),
        }
        ended = {"launch": {"steps": steps("touch on; sleep 20")}, "finally": steps("echo last")}
        job = workflow(
            failing,
            {"dependsOn": ["a"]},
            ended,
            "while [ ! -e on ]; do sleep 0.02; done; echo here",
        )

        assert node.run(job) == (0, "5\nhere\nlast\n")

    def test_launch_in_a_loop_ends_with_its_round(self, node):
        launch = {"launch": {"handleName": "a", "steps": steps('echo "l$item"')}}
        loop = {
            "for": {
                "parallel": False,
                "items": ["1", "2"],
                "steps": steps(launch, {"dependsOn": ["a"], "run": {"command": 'echo "r$item"'}}),
            }
        }

        assert node.run(workflow(loop))[1].split() == ["l1", "r1", "l2", "r2"]

    def test_launched_step_that_was_skipped_is_not_waited_for(self, node):
        job = workflow(
            {"if": "1 -eq 2", "launch": {"handleName": "a", "steps": steps("echo no")}},
            {"dependsOn": ["a"], "run": {"command": "echo yes"}},
        )

        assert node.run(job) == (0, "yes\n")

    def test_launch_in_a_launch_ends_with_it(self, node):
        inner = {
            "launch": {
                "steps": steps(
                    {
                        "run": {
                            "shell": "/bin/bash",
                            "command": "trap 'echo inner; exit' TERM; touch on; while true; do sleep 0.02; done",
                        }
                    }
                )
            }
        }
        outer = {"launch": {"steps": steps(inner, "sleep 20")}}

        code, output = node.run(workflow(outer, "while [ ! -e on ]; do sleep 0.02; done"))

        assert code == 0
        assert "inner" in output.split()  # bash may tell of processes that the signal ended

    @pytest.mark.parametrize("waiting", [False, True])
    def test_cancel_reaches_all_that_was_launched_at_once(self, node, waiting):
        """None ends before all have heard of it."""
        meet = "for _ in {1..200}; do [ -e got0 -a -e got1 -a -e got2 ] && echo met && break; sleep 0.05; done"
        body = (
            f"trap 'touch got$A; {meet}; exit 0' TERM; touch on$A; while true; do sleep 0.02; done"
        )
        launches = [
            {
                "launch": {
                    "handleName": f"h{number}", "signalOnParentStepExit": 0,
                    "steps": steps(
                        {"run": {"shell": "/bin/bash", "command": body, "env": [{"key": "A", "value": str(number)}]}}
                    ),
                }
            }
            for number in range(3)
        ]  # fmt: skip
        last = {"dependsOn": ["h1"], "run": {"command": "echo never"}} if waiting else {}
        running = node.start(workflow(*launches, last, "sleep 0.2"))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/on*"))) == 3)

        os.kill(running.pid, signal.SIGTERM)
        output, _ = running.communicate(timeout=50)

        assert (running.returncode, output.decode().split().count("met"), node.left) == (143, 3, [])

    @pytest.mark.parametrize("logging", [False, True])
    def test_cancelled_job_ends_what_runs_beside_and_leaves_nothing(self, node, logging):
        loop = {
            "for": {
                "parallel": True,
                "items": ["a", "b"],
                "steps": steps('touch "$item"; sleep 20; echo never'),
            }
        }
        launch = {
            "launch": {"signalOnParentStepExit": 0, "steps": steps("touch c; sleep 20; echo never")}
        }
        running = node.start(workflow(launch, loop, "echo never", enableLogging=logging))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/[abc]"))) == 3)

        os.kill(running.pid, signal.SIGTERM)  # to the script alone: it tells the others
        output, _ = running.communicate(timeout=15)

        assert running.returncode == 143
        assert b"never" not in output
        assert node.left == []
