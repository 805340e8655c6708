# SPDX-License-Identifier: Apache-2.0
"""The text of markers, and the stream that contains them, with a simulated log writer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.workflow.marker_jobs import loop, skipped, step_markers, workflow
from tests.unit.workflow.node import STORE, Node, steps
from tests.unit.workflow.node import workflow as without_log

from gridstead.workflow.render import render

PAGE = Path("docs/explanation/logs.md").read_text()
(MARKER,) = re.findall(r"`(\^\\\[gridstead.*?)`", PAGE)  # the pattern of the page
EXAMPLES = re.findall(r"^\[gridstead\].*", PAGE, flags=re.MULTILINE)


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

        assert step_markers(node) == [
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

    def test_a_request_has_the_field_only_if_it_is_set(self):
        """Services that do not know the field refuse it."""
        assert "disableLogMarkers" not in workflow("true").to_graphql()
        assert workflow("true", disableLogMarkers=True).to_graphql()["disableLogMarkers"] is True

    def test_a_job_without_logging_has_no_markers(self, node):
        job = without_log("true")

        assert "in_step" not in render(job)
        assert node.run(job) == (0, "")

    def test_a_provider_without_secrets_beside_the_script_has_no_markers(self):
        assert "in_step" not in render(workflow("true"), secrets_beside=False)

    @pytest.mark.parametrize("code", [0, 3])
    def test_a_closed_log_changes_neither_the_code_nor_the_output(self, node, code):
        job = workflow(f"echo one; exit {code}", {"finally": steps("echo last")})
        text = render(job, paths=node.script_paths)
        text = text.replace("# --- Resources ---", "exec 8>&-")

        assert node.run(job, text=text) == (code, "one\n" if code else "one\nlast\n")
        assert len(node.markers) == 1

    def test_a_job_runs_although_its_writer_reads_no_markers(self, node):
        """A writer of release 0.1.0 accepts a single descriptor."""
        old_writer = '#!/bin/bash\n[[ $2 != *,* ]] || exit 1\ncat <&"$2" &\ncat\nwait\n'
        node.add_program("writer", old_writer)
        job = workflow(loop("true", range={"begin": 1, "end": 1000}), "echo done; echo no >&2")
        text = render(job, paths=node.script_paths)
        # Failures are shown in every round: more text than a pipe can contain.
        function = r"step_1_1_work\(\) \(.*?\n\)\n"
        text = re.sub(function, "step_1_1_work() { return 1; }\n", text, flags=re.DOTALL)
        text = text.replace(
            "in_order step_1_1 ||",
            "in_order step_1_1 || true ||",  # the loop runs all its rounds
        )

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
    fast_text = re.sub(
        function, r"\1 { :; }\n", render(job, paths=node.script_paths), flags=re.DOTALL
    )

    assert node.run(job, text=fast_text)[0] == 0

    lines = (node.home / "log.grid").read_text("ascii").splitlines()
    assert len(lines) == 4 + 60 * 20 * 2
    assert [line for line in lines if not re.fullmatch(MARKER, line)] == []
