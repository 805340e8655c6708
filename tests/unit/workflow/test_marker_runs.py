# SPDX-License-Identifier: Apache-2.0
"""Markers in the log of a job: lines that say which step runs, with a simulated log writer."""

from __future__ import annotations

import os
import re
import signal

import pytest
from tests.unit.workflow.marker_jobs import loop, skipped, step_markers, workflow
from tests.unit.workflow.node import steps, wait_for

from gridstead.workflow.render import render


class TestSteps:
    def test_a_step_has_a_marker_when_it_begins_and_when_it_ends(self, node):
        job = workflow({"name": "prepare data", **steps("echo one")[0]}, "echo two; exit 3")

        code, output = node.run(job)

        assert (code, output) == (3, "one\ntwo\n")
        assert node.markers == [
            "[gridstead] job-begin",
            "[gridstead] begin step=1 name=prepare data",
            "[gridstead] end step=1 exit=0 name=prepare data",
            "[gridstead] begin step=2",
            "[gridstead] end step=2 exit=3",
            "[gridstead] job-end exit=3 step=2",
        ]
        assert node.leftover_files == []

    def test_a_marker_has_the_time_and_the_duration(self, node):
        """The duration is measured by the steps themselves, so that no time is expected."""
        node.run(workflow('date +%s%N >"$HOME/first"; date +%s%N >"$HOME/last"'))

        lines = (node.home / "log.grid").read_text().splitlines()
        times = [
            re.search(r" time=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$", line) for line in lines
        ]
        assert [bool(time) for time in times] == [True] * 4
        assert [time[1] for time in times] == sorted(time[1] for time in times)
        first, last = (int((node.home / name).read_text()) for name in ("first", "last"))
        seconds = float(re.search(r" seconds=(\d+\.\d{3}) ", lines[2])[1])
        assert seconds >= int((last - first) / 1e6) / 1e3

    @pytest.mark.parametrize(
        ("nodes", "first", "second"),
        [("1", " nodes=node-7", " node=node-7"), ("2", " nodes=node-7", "")],
    )
    def test_a_step_names_its_node_if_the_job_has_one_node(self, node, nodes, first, second):
        names = {"SLURM_JOB_NODELIST": "node-7", "SLURMD_NODENAME": "node-7"}
        node.run(workflow("true"), SLURM_JOB_NUM_NODES=nodes, **names)

        assert node.markers[0] == f"[gridstead] job-begin{first}"
        assert node.markers[1] == f"[gridstead] begin step=1{second}"

    def test_a_step_that_its_condition_skips_has_a_marker(self, node):
        job = workflow(
            skipped(name="never", steps=steps("exit 1")), skipped(run={"command": "exit 1"})
        )

        assert node.run(job)[0] == 0
        assert step_markers(node) == ["skip step=1 name=never", "skip step=2"]

    def test_handlers_have_markers(self, node):
        step = {
            **steps("exit 4")[0],
            "catch": steps("true"),
            "finally": [{"name": "clean up", **steps("true")[0]}],
        }

        assert node.run(workflow(step))[0] == 0
        assert step_markers(node) == [
            "begin step=1", "end step=1 exit=4",
            "begin step=1.catch.1", "end step=1.catch.1 exit=0",
            "begin step=1.finally.1 name=clean up", "end step=1.finally.1 exit=0 name=clean up",
        ]  # fmt: skip
        assert node.markers[-1] == "[gridstead] job-end exit=0"

    def test_a_group_has_markers_only_if_it_has_a_name(self, node):
        job = workflow({"steps": steps("true")}, {"name": "all", "steps": steps("true", {})})

        node.run(job)

        assert step_markers(node) == [
            "begin step=1.1", "end step=1.1 exit=0",
            "begin step=2 name=all", "begin step=2.1", "end step=2.1 exit=0",
            "end step=2 exit=0 name=all",
        ]  # fmt: skip

    def test_a_launched_step_has_markers(self, node):
        launch = {"launch": {"handleName": "a", "steps": steps("exit 6")}}

        assert node.run(workflow(launch, {"dependsOn": ["a"], **steps("true")[0]}))[0] == 6
        assert step_markers(node) == [
            "begin step=1", "begin step=1.1", "end step=1.1 exit=6", "end step=1 exit=6",
        ]  # fmt: skip

    def test_a_cancelled_step_has_an_end(self, node):
        running_job = node.start(workflow("touch started; sleep 20", "echo never"))
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=20)

        assert running_job.returncode == 143
        assert step_markers(node) == ["begin step=1", "end step=1 exit=143"]
        assert node.markers[-1].startswith("[gridstead] job-end exit=143")

    def test_a_step_that_slurm_did_not_create_has_a_marker_for_the_retry(self, node):
        node.add_program("srun-works", (node.bin / "srun").read_text())
        srun = 'mkdir "$HOME/failed" 2>/dev/null && exit 1; exec srun-works "$@"'
        node.add_program("srun", f"#!/bin/bash\n{srun}\n")
        node.add_program("sleep", "#!/bin/sh\n")  # the pause before the retry

        assert node.run(workflow("true"))[0] == 0
        assert step_markers(node) == ["begin step=1", "retry step=1", "end step=1 exit=0"]


class TestEnd:
    """The last marker names the step whose failure is the failure of the job."""

    @pytest.mark.parametrize(
        ("step", "code", "position"),
        [
            ({"steps": steps("true", {"steps": steps("exit 5")})}, 5, "1.2.1"),
            ({**steps("exit 5")[0], "catch": steps("true", "exit 6")}, 6, "1.catch.2"),
            ({**steps("exit 5")[0], "finally": steps("exit 6")}, 5, "1"),
            ({**steps("true")[0], "finally": steps("exit 6")}, 6, "1.finally.1"),
            ({"steps": steps({**steps("exit 5")[0], "catch": steps("true")}, "exit 5")}, 5, "1.2"),
            (
                {**steps("exit 5")[0], "finally": [{**steps("exit 5")[0], "catch": steps("true")}]},
                5,
                "1",
            ),
            ({**steps("exit 5")[0], "finally": steps("exit 5")}, 5, "1"),
            ({"if": "1 -eq", "run": {"command": "true"}}, 2, "1"),
            (loop("true", "exit 5", items=["a"]), 5, "1.2"),
            # The failed step is in another process, so the marker names the loop.
            (loop("exit 5", items=["a"], parallel=True), 5, "1"),
        ],
    )
    def test_the_last_marker_names_the_failed_step(self, node, step, code, position):
        result, _ = node.run(workflow(step, "echo never"))

        assert result == code
        assert node.markers[-1] == f"[gridstead] job-end exit={code} step={position}"

    def test_the_last_marker_names_no_step_if_the_input_cannot_be_fetched(self, node):
        job = workflow("true", input={"http": {"url": "http://127.0.0.1:9/"}})

        assert node.run(job)[0] == 7
        assert node.markers == ["[gridstead] job-begin", "[gridstead] job-end exit=7"]

    @pytest.mark.parametrize(
        "later",
        [
            pytest.param({"launch": {"handleName": "a", "steps": steps("exit 7")}}, id="launch"),
            pytest.param(None, id="output"),
        ],
    )
    def test_the_last_marker_does_not_name_a_step_whose_failure_was_caught(self, node, later):
        caught = {**steps("exit 7")[0], "catch": steps("true")}
        if later:
            job = workflow(caught, later, {"dependsOn": ["a"], **steps("true")[0]})
        else:
            node.add_program("curl", "#!/bin/sh\nexit 7\n")
            target = {"http": {"url": "https://a.example/"}}
            job = workflow(caught, "echo x >output/x", output=target)

        assert node.run(job)[0] == 7
        assert node.markers[-1] == "[gridstead] job-end exit=7"


class TestLoops:
    def test_the_markers_of_a_loop_name_the_rounds(self, node):
        inner = loop("true", items=["x", "y"])

        node.run(workflow(loop(inner, range={"begin": 5, "end": 6})))

        begins = [marker for marker in step_markers(node) if marker.startswith("begin")]
        assert begins == [
            "begin step=1 rounds=2",
            "begin step=1.1 round=1 rounds=2",
            "begin step=1.1.1 round=1,1", "begin step=1.1.1 round=1,2",
            "begin step=1.1 round=2 rounds=2",
            "begin step=1.1.1 round=2,1", "begin step=1.1.1 round=2,2",
        ]  # fmt: skip

    def test_the_rounds_of_a_parallel_loop_have_their_numbers(self, node):
        node.run(workflow(loop("exit $item", items=["0", "3"], parallel=True)))

        assert sorted(step_markers(node)) == [
            "begin step=1 rounds=2",
            "begin step=1.1 round=1", "begin step=1.1 round=2",
            "end step=1 exit=3",
            "end step=1.1 round=1 exit=0", "end step=1.1 round=2 exit=3",
        ]  # fmt: skip

    def test_the_markers_of_many_rounds_do_not_fill_the_log(self, node):
        """The step runs in the shell of the script, because 5,000 processes need minutes."""
        job = workflow(loop("true", range={"begin": 1, "end": 5000}))
        text = render(job, paths=node.script_paths)
        fast_text = re.sub(
            r"step_1_1_work\(\) \(.*?\n\)\n", "step_1_1_work() { :; }\n", text, flags=re.DOTALL
        )

        assert node.run(job, text=fast_text)[0] == 0

        markers = step_markers(node)
        assert "begin step=1.1 round=99" in markers
        assert "begin step=1.1 round=101" not in markers
        assert markers[-2] == "end step=1.1 round=5000 exit=0"
        assert len(markers) == 2 + 2 * (99 + 90 + 41)

    @pytest.mark.parametrize("parallel", [False, True])
    def test_inner_loops_count_the_rounds_of_the_whole_job(self, node, parallel):
        """With 40 rounds of the outer loop, an inner loop of 40 rounds has 1,600 rounds."""
        inner = loop("true", range={"begin": 1, "end": 40})
        job = workflow(loop(inner, range={"begin": 1, "end": 40}, parallel=parallel))
        text = render(job, paths=node.script_paths)
        function = r"step_1_1_1_work\(\) \(.*?\n\)\n"
        fast_text = re.sub(function, "step_1_1_1_work() { :; }\n", text, flags=re.DOTALL)

        assert node.run(job, text=fast_text)[0] == 0

        inner_markers = [marker for marker in step_markers(node) if "step=1.1.1 " in marker]
        assert len(inner_markers) == 2 * (99 + 90 + 7)

    def test_a_failed_round_is_shown_even_if_its_number_is_not(self, node):
        job = workflow(loop('[ "$index" != 111 ]', range={"begin": 1, "end": 200}))
        text = render(job, paths=node.script_paths)
        body = "step_1_1_work() { ((value_1 != 111)); }\n"
        fast_text = re.sub(r"step_1_1_work\(\) \(.*?\n\)\n", body, text, flags=re.DOTALL)

        assert node.run(job, text=fast_text)[0] == 1
        assert step_markers(node)[-2:] == ["end step=1.1 round=111 exit=1", "end step=1 exit=1"]
