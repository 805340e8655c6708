# SPDX-License-Identifier: Apache-2.0
"""Conditions, loops and handlers in the rendered script."""

from __future__ import annotations

import os
import signal
import sys
from random import Random

import pytest
from tests.unit.workflow.node import RECORDING_SRUN, steps, wait_for, workflow
from tests.unit.workflow.random_workflows import fetch_module, random_mapping

from gridstead.workflow.parse import from_graphql


class TestLists:
    def test_nested_steps_run_in_order_until_one_fails(self, node):
        inner = {
            "steps": steps(
                "echo one", {"steps": steps("echo two", "exit 7", "echo never")}, "echo never"
            )
        }

        assert node.run(workflow("echo zero", inner, "echo never")) == (7, "zero\none\ntwo\n")
        assert node.leftover_files == []

    def test_an_empty_step_does_nothing(self, node):
        assert node.run(workflow({"name": "nothing"}, "echo one")) == (0, "one\n")


class TestCondition:
    @pytest.mark.parametrize(
        ("condition", "is_true"),
        [
            ("1 -eq 1", True), ("1 -eq 2", False), ("$A = 'x y'", True),
            ('"$A" == "x y" && -n $B', False),
            ("-f there", True), ("$(cat there) = 5", True), ("$A =~ ^x", True),
            ("! -e there", False),
            ("1 -eq 1\n", True), ("$SEEN = later", True), ("$UNSET -eq 0", True),
        ],
    )  # fmt: skip
    def test_a_step_runs_if_its_condition_is_true(self, node, condition, is_true):
        first = 'echo 5 >there; echo SEEN=later >>"$DEEPSQUARE_ENV"'
        job = workflow(
            first,
            {"if": condition, "run": {"command": "echo yes"}},
            env=[{"key": "A", "value": "x y"}],
        )

        assert node.run(job) == (0, "yes\n" if is_true else "")

    @pytest.mark.parametrize(
        "condition", ["a b", "1 -eq", "]]", "(", "'", "# ", "; exit 0", "]] ; exit 3; [["]
    )
    def test_an_invalid_condition_fails_the_step_with_a_message(self, node, condition):
        step = {"if": condition, "run": {"command": "echo yes"}}
        job = workflow("true", {"finally": steps(step)}, "echo never")
        code, output = node.run(job)

        assert code != 0
        assert "yes" not in output
        assert "never" not in output
        assert "gridstead: could not evaluate the condition of step 2 finally 1\n" in output
        assert node.leftover_files == []

    def test_a_step_with_an_empty_condition_runs(self, node):
        assert node.run(workflow({"if": "", "run": {"command": "echo yes"}})) == (0, "yes\n")

    def test_a_condition_does_not_change_variables_of_the_job(self, node):
        job = workflow({"if": "${storage:=/} = / || $(cd /) = '' ", "run": {"command": "pwd"}})

        assert node.run(job)[1].startswith(str(node.root))

    def test_the_handlers_of_a_skipped_step_do_not_run(self, node):
        job = workflow(
            {
                "if": "1 -eq 2",
                "run": {"command": "exit 1"},
                "catch": steps("echo c"),
                "finally": steps("echo f"),
            }
        )

        assert node.run(job) == (0, "")


class TestLoop:
    def test_a_loop_runs_once_for_each_item_in_order(self, node):
        items = ["a b", "", "$HOME", "it's", "x\ny", "*", "$(touch owned)", "\x1b", "#", "-n"]
        job = workflow(
            {"for": {"parallel": False, "items": items, "steps": steps('printf "<%s>" "$item"')}}
        )

        assert node.run(job) == (0, "".join(f"<{item}>" for item in items))
        assert not list(node.root.rglob("owned"))

    @pytest.mark.parametrize(
        ("numbers", "expected"),
        [
            ({"begin": 0, "end": 3}, "0 1 2 3 "),
            ({"begin": 1, "end": 6, "increment": 2}, "1 3 5 "),
            ({"begin": 2, "end": 0, "increment": -1}, "2 1 0 "),
            ({"begin": 1, "end": 2, "increment": 0}, "1 2 "),
            ({"begin": 3, "end": 0}, ""), ({"begin": -1, "end": -1}, "-1 "),
        ],
    )  # fmt: skip
    def test_a_range_includes_both_ends(self, node, numbers, expected):
        job = workflow(
            {"for": {"parallel": False, "range": numbers, "steps": steps('printf "%s " "$index"')}}
        )

        assert node.run(job)[1] == expected

    def test_a_nested_loop_has_the_variables_of_both_loops(self, node):
        """DeepSquare's implementation runs the inner steps too often in later outer iterations."""
        inner = {
            "for": {
                "parallel": False,
                "range": {"begin": 1, "end": 2},
                "steps": steps('echo "$item$index"'),
            }
        }
        outer = {
            "for": {"parallel": False, "items": ["a", "b"], "steps": steps('echo "$item"', inner)}
        }

        assert node.run(workflow(outer))[1].split() == ["a", "a1", "a2", "b", "b1", "b2"]

    def test_an_item_hides_variables_of_the_same_name(self, node):
        inner = {"for": {"parallel": False, "items": ["x"], "steps": steps('echo "$item"')}}
        outer = {"for": {"parallel": False, "items": ["a"], "steps": steps(inner, 'echo "$item"')}}
        job = workflow(outer, 'echo "$item"', env=[{"key": "item", "value": "job"}])

        assert node.run(job)[1].split() == ["x", "a", "job"]

    def test_a_failed_iteration_ends_the_loop(self, node):
        loop = {
            "for": {
                "parallel": False,
                "items": ["1", "2"],
                "steps": steps("echo $item", "exit $item"),
            }
        }

        assert node.run(workflow(loop, "echo never")) == (1, "1\n")

    def test_the_rounds_of_a_parallel_loop_run_at_once(self, node):
        """Each of the two rounds waits for a file that the other one creates."""
        body = (
            'touch "$item"; other=$([ "$item" = a ] && echo b || echo a);'
            " while [ ! -e $other ]; do sleep 0.02; done"
        )
        loop = {"for": {"parallel": True, "items": ["a", "b"], "steps": steps(body)}}

        assert node.run(workflow(loop, "echo met")) == (0, "met\n")

    def test_a_parallel_loop_has_the_exit_code_of_its_first_failed_round(self, node):
        # Round 1 fails later than round 2, but comes first in the order of the loop.
        body = (
            '[ "$index" != 1 ] || { sleep 0.3; exit 5; }; [ "$index" != 2 ] || exit 6;'
            ' echo "$index" >>done'
        )
        loop = {
            "for": {"parallel": True, "range": {"begin": 0, "end": 3}, "steps": steps(body)},
            "catch": steps("sort done; exit $DEEPSQUARE_ERROR_CODE"),
        }

        assert node.run(workflow(loop, "echo never")) == (5, "0\n3\n")

    def test_a_nested_parallel_loop_runs_all_combinations(self, node):
        inner = {
            "for": {
                "parallel": True,
                "items": ["1", "2"],
                "steps": steps('echo "$index$item" >>out'),
            }
        }
        outer = {"for": {"parallel": True, "range": {"begin": 1, "end": 2}, "steps": steps(inner)}}

        assert node.run(workflow(outer, "sort out"))[1].split() == ["11", "12", "21", "22"]

    def test_a_cancelled_parallel_loop_signals_all_rounds_at_once(self, node):
        """Each of the two rounds waits until the other one has received the signal."""
        wait_for_other = (
            'touch "got-$item"; for _ in $(seq 100); do'
            ' [ -e "got-$other" ] && echo met && break; sleep 0.05; done'
        )
        body = f"""
            other=$([ "$item" = a ] && echo b || echo a)
            trap '{wait_for_other}; exit 9' TERM
            touch "$item"; while true; do sleep 0.05; done
        """
        running_job = node.start(
            workflow({"for": {"parallel": True, "items": ["a", "b"], "steps": steps(body)}})
        )
        wait_for(lambda: len(list(node.root.glob("cache/shared/*/*/[ab]"))) == 2)

        os.kill(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=20)

        assert running_job.returncode == 143
        assert output.count(b"met\n") == 2
        assert node.leftover_files == []

    def test_a_loop_over_no_items_succeeds(self, node):
        loops = [
            {"for": {"parallel": parallel, "items": [], "steps": steps("echo x")}}
            for parallel in (True, False)
        ]

        assert node.run(workflow(*loops)) == (0, "")


class TestHandlers:
    def test_a_job_continues_after_a_caught_failure(self, node):
        job = workflow(
            {"run": {"command": "exit 9"}, "catch": steps("echo caught $DEEPSQUARE_ERROR_CODE")},
            'echo "after $DEEPSQUARE_ERROR_CODE"',
        )

        assert node.run(job) == (0, "caught 9\nafter 9\n")

    def test_catch_does_not_run_without_a_failure(self, node):
        job = workflow(
            {
                "run": {"command": "true"},
                "catch": steps("echo no"),
                "finally": steps("echo $DEEPSQUARE_ERROR_CODE"),
            }
        )

        assert node.run(job) == (0, "0\n")

    def test_a_failed_catch_fails_the_job(self, node):
        job = workflow(
            {"run": {"command": "exit 9"}, "catch": steps("exit 4"), "finally": steps("echo last")},
            "echo no",
        )

        assert node.run(job) == (4, "last\n")

    @pytest.mark.parametrize(
        ("code", "finally_code", "expected"), [(0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 3)]
    )
    def test_a_step_with_finally_has_the_code_of_its_first_failure(
        self, node, code, finally_code, expected
    ):
        job = workflow(
            {
                "run": {"command": f"exit {code}"},
                "finally": steps(f"echo last; exit {finally_code}"),
            }
        )

        assert node.run(job) == (expected, "last\n")

    def test_nested_handlers_run_from_the_inside_out(self, node):
        inner = {
            "run": {"command": "exit 2"},
            "catch": steps("echo inner $DEEPSQUARE_ERROR_CODE; exit 3"),
            "finally": steps("echo if $DEEPSQUARE_ERROR_CODE"),
        }
        job = workflow(
            {
                "steps": steps(inner, "echo never"),
                "catch": steps("echo outer $DEEPSQUARE_ERROR_CODE"),
                "finally": steps("echo of"),
            }
        )

        assert node.run(job) == (0, "inner 2\nif 2\nouter 3\nof\n")

    def test_a_cancelled_job_runs_its_finally_steps_and_no_other_steps(self, node):
        body = {
            "run": {"command": "touch started; sleep 20"},
            "catch": steps("echo caught"),
            "finally": steps("echo in"),
        }
        running_job = node.start(
            workflow(
                {"steps": steps(body, "echo never"), "finally": steps("echo out")}, "echo never"
            )
        )
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=20)

        assert running_job.returncode == 143
        assert output.split()[-2:] == [b"in", b"out"]
        assert len(node.srun_calls) == 1, "Slurm starts no tasks in a job that it ends"
        assert b"caught" not in output
        assert b"never" not in output
        assert node.leftover_files == []

    def test_a_job_cancelled_during_the_finally_of_a_failed_step_does_not_continue(self, node):
        body = {"run": {"command": "exit 3"}, "finally": steps("touch started; sleep 20")}
        job = workflow({"steps": steps(body), "catch": steps("echo caught")}, "echo never")
        running_job = node.start(job)
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=20)

        assert running_job.returncode == 3
        assert b"caught" not in output
        assert b"never" not in output
        assert node.leftover_files == []


@pytest.mark.parametrize("seed", range(12))
def test_the_script_of_a_random_workflow_executes_none_of_its_texts(node, seed):
    node.add_program("srun", f"#!{sys.executable} -IS\nhome = {str(node.home)!r}\n{RECORDING_SRUN}")
    workflow = from_graphql(random_mapping(Random(seed), host_only=True), fetch_module=fetch_module)

    code, output = node.run(workflow)

    # The output is not compared, because it may contain messages of bash about signals.
    assert code == 0, output
    assert "gridstead" not in output
    assert not list(node.root.rglob("owned"))
    assert node.leftover_files == []
