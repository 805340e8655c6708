# SPDX-License-Identifier: Apache-2.0
"""Launched steps in the rendered script.

A ``launch`` of a workflow contains steps that run in the background. By default, these launched
steps get a signal when the list of steps that contains the ``launch`` ends.
"""

from __future__ import annotations

import os
import signal

import pytest
from tests.unit.workflow.node import steps, wait_for, workflow

from gridstead.workflow.render import render


class TestLaunch:
    def test_a_launched_step_runs_in_parallel_until_a_step_waits_for_it(self, node):
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

    @pytest.mark.parametrize("depth", [1, 2])
    @pytest.mark.parametrize("condition", [{}, {"if": "1 -eq 1"}])
    def test_a_launched_step_of_a_group_runs_until_a_step_after_the_group_waits_for_it(
        self, node, depth, condition
    ):
        command = "while [ ! -e go ]; do sleep 0.02; done; echo launched"
        group = {"launch": {"handleName": "a", "steps": steps(command)}}
        for _ in range(depth):
            group = {"steps": steps(group, "echo in the group"), **condition}
        wait = {"dependsOn": ["a"], "run": {"command": "echo waited"}}

        code, output = node.run(workflow(group, "echo after; touch go", wait))

        assert code == 0
        assert output == "in the group\n" * depth + "after\nlaunched\nwaited\n"
        assert node.leftover_files == []

    def test_a_step_after_a_group_receives_the_failure_of_a_launched_step(self, node):
        group = {"steps": steps({"launch": {"handleName": "a", "steps": steps("exit 6")}}, "true")}
        wait = {"dependsOn": ["a"], "run": {"command": "echo never"}}

        assert node.run(workflow(group, wait)) == (6, "")

    def test_a_launched_step_of_a_skipped_group_needs_no_wait(self, node):
        launch = {"launch": {"handleName": "a", "steps": steps("echo never")}}
        group = {"if": "1 -eq 2", "steps": steps(launch)}

        assert node.run(workflow(group, {"dependsOn": ["a"], **steps("echo on")[0]})) == (0, "on\n")

    def test_a_launched_step_of_a_group_ends_with_the_list_around_the_group(self, node):
        body = "trap 'echo got; exit 0' TERM; touch started; while true; do sleep 0.02; done"
        launch = {
            "launch": {
                "handleName": "a",
                "steps": [{"run": {"shell": "/bin/bash", "command": body}}],
            }
        }
        group = {"steps": steps(launch, "while [ ! -e started ]; do sleep 0.02; done")}
        skipped_wait = {"if": "1 -eq 2", "steps": steps({"dependsOn": ["a"]})}
        loop = {
            "for": {
                "parallel": False,
                "items": ["a"],
                "steps": steps(group, "echo outside", skipped_wait),
            }
        }

        code, output = node.run(workflow(loop, "echo end"))

        assert code == 0
        assert output.startswith("outside\n")
        assert output.endswith("got\nend\n")

    def test_a_step_waits_for_the_last_launch_with_its_handle(self, node):
        def launch(name):
            command = f"while [ ! -e {name} ]; do sleep 0.02; done; echo {name}"
            return {"launch": {"handleName": "a", "steps": steps(command)}}

        wait = {"dependsOn": ["a"], "run": {"command": "echo waited"}}
        job = workflow(launch("one"), "touch one", wait, launch("two"), "touch two", wait)

        assert node.run(job) == (0, "one\nwaited\ntwo\nwaited\n")

    def test_a_group_waits_for_an_earlier_launch_with_a_handle_that_it_uses_again(self, node):
        command = "while [ ! -e go ]; do sleep 0.02; done; echo one"
        job = workflow(
            {"launch": {"handleName": "a", "steps": steps(command)}},
            "touch go",
            {
                "dependsOn": ["a"],
                "steps": steps(
                    "echo waited", {"launch": {"handleName": "a", "steps": steps("echo two")}}
                ),
            },
            {"dependsOn": ["a"], "run": {"command": "echo end"}},
        )

        assert node.run(job) == (0, "one\nwaited\ntwo\nend\n")

    def test_a_step_that_waits_for_a_failed_launched_step_fails(self, node):
        job = workflow(
            {"launch": {"handleName": "a", "steps": steps("exit 6")}},
            {
                "steps": steps({"dependsOn": ["a"], "run": {"command": "echo never"}}),
                "catch": steps("echo $DEEPSQUARE_ERROR_CODE; exit 2"),
            },
            "echo never",
        )

        assert node.run(job) == (2, "6\n")

    def test_every_step_that_waits_for_a_failed_launched_step_fails(self, node):
        wait = {
            "steps": steps({"dependsOn": ["a"], "run": {"command": "echo never"}}),
            "catch": steps("echo $DEEPSQUARE_ERROR_CODE"),
        }
        job = workflow({"launch": {"handleName": "a", "steps": steps("exit 6")}}, wait, wait)

        assert node.run(job) == (6, "6\n6\n")

    @pytest.mark.parametrize("signal_number", [1, 2, 3, 9, 15])
    def test_a_launched_step_is_signalled_when_the_list_around_the_launch_ends(
        self, node, signal_number
    ):
        can_be_trapped = signal_number != 9
        trapped_number = signal_number if can_be_trapped else 15
        body = (
            f"trap 'echo got; exit 0' {trapped_number}; touch started;"
            " while true; do sleep 0.02; done"
        )
        run = {"run": {"shell": "/bin/bash", "command": body}}
        launch = {"launch": {"signalOnParentStepExit": signal_number, "steps": steps(run)}}
        group = {"steps": steps(launch, "while [ ! -e started ]; do sleep 0.02; done")}

        code, output = node.run(workflow(group, "echo after"))

        assert code == 0
        if can_be_trapped:
            assert output.endswith("got\nafter\n")
        else:
            assert output.endswith("after\n")
            assert "got" not in output

    def test_killed_launched_steps_cause_no_message_of_bash(self, node):
        """By default, bash prints the source of a killed command."""
        launch = {"launch": {"signalOnParentStepExit": 9, "steps": steps("sleep 20")}}

        assert node.run(workflow(*[launch] * 8, "echo here", tasks=9)) == (0, "here\n")

    @pytest.mark.parametrize("container", [False, True])
    def test_the_signal_of_a_launch_is_sent_to_its_slurm_step(self, node, container):
        """The script sends the signal with scancel, so that the tasks receive it and srun does not.

        Most signals make srun kill its tasks, so that traps in the tasks do not run.
        """
        node.add_program(
            "scancel", '#!/bin/bash\necho "$@" >>"$HOME/scancel"\ntouch "$HOME/signalled"\n'
        )
        step = {"run": {"command": "touch ~/at; while [ ! -e ~/signalled ]; do sleep 0.02; done"}}
        if container:
            # The last three words of a call are the command: a shell, -c, and its script.
            node.add_program("apptainer", '#!/bin/bash\nexec "${@: -3}"\n')
            step["run"]["container"] = {"image": "/some.sqsh", "apptainer": True}
        launch = {"launch": {"signalOnParentStepExit": 15, "steps": steps(step)}}
        group = {
            "steps": steps("touch some.sqsh", launch, "while [ ! -e ~/at ]; do sleep 0.02; done")
        }

        code, output = node.run(workflow(group), SLURM_STEP_ID="7")

        assert (code, output) == (0, "")
        # 42.7 is the job id of the simulated node and the step id.
        assert (node.home / "scancel").read_text() == "--signal=15 42.7\n"

    def test_srun_quits_on_the_first_interrupt_in_a_launch_that_sigint_ends(self):
        loop = {"for": {"parallel": False, "items": ["a"], "steps": steps("true")}}
        interrupted_launch = {"launch": {"signalOnParentStepExit": 2, "steps": steps(loop, "true")}}

        text = render(workflow(interrupted_launch, {"launch": {"steps": steps("true")}}, "true"))

        # Two of the four steps are in the launch that SIGINT ends.
        assert text.count("\n  start --job-name=") == 4
        assert text.count(" --quit-on-interrupt ") == 2

    def test_the_script_waits_for_a_launched_step_that_gets_no_signal(self, node):
        launch = {
            "launch": {"signalOnParentStepExit": 0, "steps": steps("sleep 0.3; echo launched")}
        }

        result = node.run(workflow({"steps": steps(launch)}, "echo after"))

        assert result == (0, "launched\nafter\n")

    def test_a_failed_launched_step_fails_the_job(self, node):
        """DeepSquare's implementation ignores the failure."""
        launch = {"launch": {"steps": steps("touch at; exit 8")}}
        wait = "while [ ! -e at ]; do sleep 0.02; done; sleep 0.3"

        assert node.run(workflow(launch, wait))[0] == 8

    def test_launched_steps_end_when_a_step_fails(self, node):
        launch = {"launch": {"steps": steps("touch at; sleep 20; echo never")}}

        code, output = node.run(workflow(launch, "while [ ! -e at ]; do sleep 0.02; done; exit 3"))

        assert code == 3
        assert "never" not in output
        assert node.leftover_files == []

    def test_catch_runs_after_a_failed_launch_and_finally_after_a_signalled_launch(self, node):
        failing = {
            "launch": {"handleName": "a", "steps": steps("exit 5")},
            "catch": steps("echo $DEEPSQUARE_ERROR_CODE"),
        }
        signalled_launch = {
            "launch": {"steps": steps("touch on; sleep 20")},
            "finally": steps("echo last"),
        }
        job = workflow(
            failing,
            {"dependsOn": ["a"]},
            signalled_launch,
            "while [ ! -e on ]; do sleep 0.02; done; echo here",
        )

        assert node.run(job) == (0, "5\nhere\nlast\n")

    def test_a_step_can_wait_for_the_launch_of_its_own_iteration(self, node):
        launch = {"launch": {"handleName": "a", "steps": steps('echo "l$item"')}}
        loop = {
            "for": {
                "parallel": False,
                "items": ["1", "2"],
                "steps": steps(launch, {"dependsOn": ["a"], "run": {"command": 'echo "r$item"'}}),
            }
        }

        assert node.run(workflow(loop))[1].split() == ["l1", "r1", "l2", "r2"]

    def test_a_step_does_not_wait_for_a_skipped_launch(self, node):
        job = workflow(
            {"if": "1 -eq 2", "launch": {"handleName": "a", "steps": steps("echo no")}},
            {"dependsOn": ["a"], "run": {"command": "echo yes"}},
        )

        assert node.run(job) == (0, "yes\n")

    def test_a_nested_launch_is_signalled_when_the_outer_launch_ends(self, node):
        body = "trap 'echo inner; exit' TERM; touch on; while true; do sleep 0.02; done"
        run = {"run": {"shell": "/bin/bash", "command": body}}
        inner = {"launch": {"steps": steps(run)}}
        outer = {"launch": {"steps": steps(inner, "sleep 20")}}

        code, output = node.run(workflow(outer, "while [ ! -e on ]; do sleep 0.02; done"))

        assert code == 0
        assert "inner" in output.split()  # bash may print messages about signals

    @pytest.mark.parametrize("has_waiting_step", [False, True])
    def test_a_cancelled_job_signals_all_launched_steps_at_once(self, node, has_waiting_step):
        """Each launched step waits until all launched steps have received the signal."""
        wait_for_others = (
            "for _ in {1..200}; do [ -e got0 -a -e got1 -a -e got2 ] && echo met && break;"
            " sleep 0.05; done"
        )
        body = (
            f"trap 'touch got$A; {wait_for_others}; exit 0' TERM; touch on$A;"
            " while true; do sleep 0.02; done"
        )
        launches = []
        for number in range(3):
            env = [{"key": "A", "value": str(number)}]
            run = {"run": {"shell": "/bin/bash", "command": body, "env": env}}
            launch = {"handleName": f"h{number}", "signalOnParentStepExit": 0, "steps": steps(run)}
            launches.append({"launch": launch})
        waiting_step = {"dependsOn": ["h1"], "run": {"command": "echo never"}}
        step = waiting_step if has_waiting_step else {}
        running_job = node.start(workflow(*launches, step, "sleep 0.2"))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/on*"))) == 3)

        os.kill(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=50)

        assert running_job.returncode == 143
        assert output.split().count(b"met") == 3
        assert node.leftover_files == []

    @pytest.mark.parametrize("logging", [False, True])
    def test_a_cancelled_job_ends_parallel_steps_and_leaves_no_files(self, node, logging):
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
        running_job = node.start(workflow(launch, loop, "echo never", enableLogging=logging))
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/[abc]"))) == 3)

        os.kill(running_job.pid, signal.SIGTERM)  # only the script gets the signal of the test
        output, _ = running_job.communicate(timeout=15)

        assert running_job.returncode == 143
        assert b"never" not in output
        assert node.leftover_files == []
