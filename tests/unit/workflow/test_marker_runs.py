# SPDX-License-Identifier: Apache-2.0
"""Markers in the log of a job: lines that say which step runs, with a simulated log writer."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from tests.unit.workflow.node import STORE, Node, steps, wait_for
from tests.unit.workflow.node import workflow as without_log

from gridstead.workflow.render import render

PAGE = Path("docs/explanation/logs.md").read_text()
(MARKER,) = re.findall(r"`(\^\\\[gridstead.*?)`", PAGE)  # the pattern of the page
EXAMPLES = re.findall(r"^\[gridstead\].*", PAGE, flags=re.MULTILINE)


def workflow(*steps_or_commands, **fields):
    """Return a workflow of these steps whose output is sent to the logger."""
    return without_log(*steps_or_commands, enableLogging=True, **fields)


def loop(*steps_or_commands, parallel=False, **rounds):
    return {"for": {"parallel": parallel, **rounds, "steps": steps(*steps_or_commands)}}


def skipped(**step):
    return {"if": "1 -eq 2", **step}


def between(node):
    """Return the markers of the steps: all except the first and the last, without the prefix."""
    return [marker.removeprefix("[gridstead] ") for marker in node.markers[1:-1]]


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
        assert between(node) == ["skip step=1 name=never", "skip step=2"]

    def test_handlers_have_markers(self, node):
        step = {
            **steps("exit 4")[0],
            "catch": steps("true"),
            "finally": [{"name": "clean up", **steps("true")[0]}],
        }

        assert node.run(workflow(step))[0] == 0
        assert between(node) == [
            "begin step=1", "end step=1 exit=4",
            "begin step=1.catch.1", "end step=1.catch.1 exit=0",
            "begin step=1.finally.1 name=clean up", "end step=1.finally.1 exit=0 name=clean up",
        ]  # fmt: skip
        assert node.markers[-1] == "[gridstead] job-end exit=0"

    def test_a_group_has_markers_only_if_it_has_a_name(self, node):
        job = workflow({"steps": steps("true")}, {"name": "all", "steps": steps("true", {})})

        node.run(job)

        assert between(node) == [
            "begin step=1.1", "end step=1.1 exit=0",
            "begin step=2 name=all", "begin step=2.1", "end step=2.1 exit=0",
            "end step=2 exit=0 name=all",
        ]  # fmt: skip

    def test_a_launched_step_has_markers(self, node):
        launch = {"launch": {"handleName": "a", "steps": steps("exit 6")}}

        assert node.run(workflow(launch, {"dependsOn": ["a"], **steps("true")[0]}))[0] == 6
        assert between(node) == [
            "begin step=1", "begin step=1.1", "end step=1.1 exit=6", "end step=1 exit=6",
        ]  # fmt: skip

    def test_a_cancelled_step_has_an_end(self, node):
        running_job = node.start(workflow("touch started; sleep 20", "echo never"))
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=20)

        assert running_job.returncode == 143
        assert between(node) == ["begin step=1", "end step=1 exit=143"]
        assert node.markers[-1].startswith("[gridstead] job-end exit=143")

    def test_a_step_that_slurm_did_not_create_has_a_marker_for_the_retry(self, node):
        node.add_program("srun-works", (node.bin / "srun").read_text())
        srun = 'mkdir "$HOME/failed" 2>/dev/null && exit 1; exec srun-works "$@"'
        node.add_program("srun", f"#!/bin/bash\n{srun}\n")
        node.add_program("sleep", "#!/bin/sh\n")  # the pause before the retry

        assert node.run(workflow("true"))[0] == 0
        assert between(node) == ["begin step=1", "retry step=1", "end step=1 exit=0"]


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


class TestLoops:
    def test_the_markers_of_a_loop_name_the_rounds(self, node):
        inner = loop("true", items=["x", "y"])

        node.run(workflow(loop(inner, range={"begin": 5, "end": 6})))

        begins = [marker for marker in between(node) if marker.startswith("begin")]
        assert begins == [
            "begin step=1 rounds=2",
            "begin step=1.1 round=1 rounds=2",
            "begin step=1.1.1 round=1,1", "begin step=1.1.1 round=1,2",
            "begin step=1.1 round=2 rounds=2",
            "begin step=1.1.1 round=2,1", "begin step=1.1.1 round=2,2",
        ]  # fmt: skip

    def test_the_rounds_of_a_parallel_loop_have_their_numbers(self, node):
        node.run(workflow(loop("exit $item", items=["0", "3"], parallel=True)))

        assert sorted(between(node)) == [
            "begin step=1 rounds=2",
            "begin step=1.1 round=1", "begin step=1.1 round=2",
            "end step=1 exit=3",
            "end step=1.1 round=1 exit=0", "end step=1.1 round=2 exit=3",
        ]  # fmt: skip

    def test_the_markers_of_many_rounds_do_not_fill_the_log(self, node):
        """The step runs in the shell of the script, because 5,000 processes need minutes."""
        job = workflow(loop("true", range={"begin": 1, "end": 5000}))
        text = render(job, paths=node.script_paths)
        fast = re.sub(
            r"step_1_1_work\(\) \(.*?\n\)\n", "step_1_1_work() { :; }\n", text, flags=re.DOTALL
        )

        assert node.run(job, text=fast)[0] == 0

        markers = between(node)
        assert "begin step=1.1 round=99" in markers
        assert "begin step=1.1 round=101" not in markers
        assert markers[-2] == "end step=1.1 round=5000 exit=0"
        assert len(markers) == 2 + 2 * (99 + 90 + 41)

    def test_inner_loops_count_the_rounds_of_the_whole_job(self, node):
        """With 40 rounds of the outer loop, an inner loop of 40 rounds has 1,600 rounds."""
        inner = loop("true", range={"begin": 1, "end": 40})
        job = workflow(loop(inner, range={"begin": 1, "end": 40}))
        text = render(job, paths=node.script_paths)
        function = r"step_1_1_1_work\(\) \(.*?\n\)\n"
        fast = re.sub(function, "step_1_1_1_work() { :; }\n", text, flags=re.DOTALL)

        assert node.run(job, text=fast)[0] == 0

        inner_markers = [marker for marker in between(node) if "step=1.1.1 " in marker]
        assert len(inner_markers) == 2 * (99 + 90 + 7)

    def test_a_failed_round_is_shown_even_if_its_number_is_not(self, node):
        job = workflow(loop('[ "$index" != 111 ]', range={"begin": 1, "end": 200}))
        text = render(job, paths=node.script_paths)
        body = "step_1_1_work() { ((value_1 != 111)); }\n"
        fast = re.sub(r"step_1_1_work\(\) \(.*?\n\)\n", body, text, flags=re.DOTALL)

        assert node.run(job, text=fast)[0] == 1
        assert between(node)[-2:] == ["end step=1.1 round=111 exit=1", "end step=1 exit=1"]


class TestNames:
    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("Zürich → 1", "Z?rich ? 1"), ("a'b\"c$(id)`id`\\", "a'b\"c$(id)`id`\\"),
            ("%s %d", "%s %d"), ("-n", "-n"), ("x" * 128, "x" * 61 + "..."),
            ("[gridstead] end step=9 exit=0", "[gridstead] end step=9 exit=0"),
        ],
    )  # fmt: skip
    def test_a_name_is_printable_ascii_of_limited_length(self, node, name, shown):
        node.run(workflow({"name": name, **steps("true")[0]}, skipped(name=name)))

        assert between(node) == [
            f"begin step=1 name={shown}", f"end step=1 exit=0 name={shown}",
            f"skip step=2 name={shown}",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "secret", ["very/secret+key=", "AKIA", "hush-hush", "pass/w.rd", "to%20ken", "to ken"]
    )
    def test_a_secret_in_a_name_is_masked(self, secret):
        container = {"image": "a", "username": "train", "password": "hush-hush"}
        other = {"image": "b", "username": "x", "password": "pass/w.rd"}
        job = workflow(
            {"name": f"train with {secret}!", "run": {"command": "a", "container": container}},
            {"run": {"command": "a", "container": other}},
            input={"http": {"url": "https://a.example/?x=1&token=to%20ken"}},
            output={"s3": {**STORE, "path": "/"}},
        )

        (words,) = re.findall(r"in_step 1 (.*?) '' step_1_work", render(job))

        assert words == "'train with ***!'"

    def test_markers_match_the_documented_grammar(self, node):
        names = ["a  b", "x=y name=z", "é", None, "name=x time=y"]
        all_steps = [{"name": name, **steps("true")[0]} for name in names]
        node.run(workflow(loop(*all_steps, skipped(name="é"), items=["1", "2"])))

        lines = (node.home / "log.grid").read_text("ascii").splitlines()
        assert len(lines) == 2 + 2 + 2 * (2 * 5 + 1)
        assert [line for line in lines if not re.fullmatch(MARKER, line)] == []


def test_the_documented_examples_match_the_documented_pattern():
    fields = [re.fullmatch(MARKER, example).groups() for example in EXAMPLES]

    assert len(fields) == 8
    assert fields[2] == (
        "end",
        " step=1 exit=0 seconds=3.210 time=2026-11-26T08:00:03.555Z",
        "prepare data",
    )


class TestStreams:
    def test_output_of_a_step_contains_no_marker(self, node):
        command = 'echo A=1 >>"$DEEPSQUARE_ENV"; echo x >output/x; echo >&2 no end; printf "no end"'
        job = workflow(
            {"if": '"$(echo yes)" = yes', "run": {"command": command}},
            'echo "$A"; cat output/x "$DEEPSQUARE_ENV"',
        )

        code, output = node.run(job)

        assert code == 0
        assert "[gridstead]" not in output
        assert (node.home / "log").read_text() == "no end1\nx\nA=1\n"
        assert (node.home / "log.stderr").read_text() == "no end\n"

    def test_a_job_can_switch_its_markers_off(self, node):
        job = workflow({"name": "a", **loop("true", items=["1"])}, disableLogMarkers=True)

        assert node.run(job)[0] == 0
        assert node.markers == []
        assert "in_step" not in render(job)

    def test_a_job_without_logging_has_no_markers(self, node):
        job = without_log("true")

        assert "in_step" not in render(job)
        assert node.run(job) == (0, "")

    def test_a_provider_without_secrets_beside_the_script_has_no_markers(self):
        assert "in_step" not in render(workflow("true"), secrets_beside=False)

    @pytest.mark.parametrize("code", [0, 3])
    def test_a_step_that_closes_the_pipe_of_the_markers_does_not_fail_the_job(self, node, code):
        """The simulated srun runs the step on the node of the script."""
        assert node.run(workflow(f"exec 8>&-; exit {code}"))[0] == code

    def test_a_job_runs_although_its_writer_reads_no_markers(self, node):
        """A writer of release 0.1.0 accepts a single descriptor."""
        old_writer = '#!/bin/bash\n[[ $2 != *,* ]] || exit 1\ncat <&"$2" &\ncat\nwait\n'
        node.add_program("writer", old_writer)
        job = workflow(loop("true", range={"begin": 1, "end": 1000}), "echo done; echo no >&2")
        text = render(job, paths=node.script_paths)
        # Failures are shown in every round: more text than a pipe can contain.
        function = r"step_1_1_work\(\) \(.*?\n\)\n"
        text = re.sub(function, "step_1_1_work() { return 1; }\n", text, flags=re.DOTALL)
        text = text.replace("in_order step_1_1 ||", "in_order step_1_1 || true ||")

        code, output = node.run(job, text=text, timeout_s=20)

        assert (code, sorted(output.split())) == (0, ["done", "no"])

    def test_a_job_runs_although_it_has_no_writer(self, node):
        (node.bin / "writer").unlink()

        code, output = node.run(workflow("echo one; echo two >&2"))

        assert code == 0
        assert {"one", "two"} <= set(output.splitlines())
        assert node.leftover_files == []


def test_bash_writes_markers_of_branches_whole(tmp_path):
    """Many rounds write at the same time, and no marker is inside another one."""
    node = Node(tmp_path)
    name = "n" * 64
    rounds = {"items": [str(number) for number in range(60)], "parallel": True}
    job = workflow(loop(*[{"name": name, **steps("true")[0]}] * 20, **rounds), tasks=60)
    function = r"(step_1_1_\d+_work\(\)|step_1_\d+_work\(\)) \(.*?\n\)\n"
    fast = re.sub(function, r"\1 { :; }\n", render(job, paths=node.script_paths), flags=re.DOTALL)

    assert node.run(job, text=fast)[0] == 0

    lines = (node.home / "log.grid").read_text("ascii").splitlines()
    assert len(lines) == 4 + 60 * 20 * 2
    assert [line for line in lines if not re.fullmatch(MARKER, line)] == []
