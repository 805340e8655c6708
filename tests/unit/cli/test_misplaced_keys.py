# SPDX-License-Identifier: Apache-2.0
"""`gridstead submit` asks before a job that runs differently because keys are ignored."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest

from gridstead.cli import submit as submit_command
from gridstead.cli.watch import INTERRUPTED

INPUT_EXIT = 65
CONFIG_EXIT = 78  # The settings of the client are missing. All checks of the workflow have passed.
VALID = """\
resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 64}
steps:
- run: {command: "true"}
"""
QUESTION = "Submit it nevertheless? [y/N]"
# Keys without which the job runs differently, and their paths.
MISPLACED_KEYS = {
    "container of a step": (VALID + "  container: {image: x}\n", "steps[0].container"),
    "GPUs of a command": (
        VALID.replace('"true"', '"true", resources: {gpus: 1}'),
        "steps[0].run.resources.gpus",
    ),
    "network of a step": (VALID + "  network: pasta\n", "steps[0].network"),
    "condition of a command": (VALID.replace('"true"', '"true", if: x'), "steps[0].run.if"),
    "a misspelled container": (
        VALID.replace('"true"', '"true", contaner: {image: x}'),
        "steps[0].run.contaner",
    ),
    "DNS servers on the host network": (
        VALID.replace('"true"', '"true", dns: [10.0.0.1]'),
        "steps[0].run.dns",
    ),
    "next to job": (
        "env: [{key: A, value: x}]\njob:\n  " + VALID.replace("\n", "\n  "),
        "env",
    ),
}
# Lines that cause a warning, but without which the job runs the same.
HARMLESS_LINES = (
    "author: me\n",
    "name: a job\n",
    "x-a: 1\n",
    "continuousOutputSync: true\n",
    "---\n",
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def write_workflow(tmp_path):
    """Return a function that writes a workflow file and returns its path."""

    def write(text):
        file = tmp_path / "workflow.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def submit(gridstead, write_workflow):
    """Return a function that submits a workflow. It ends at the missing settings of the client."""

    def run(text, *options):
        return gridstead("submit", write_workflow(text), "--credits", "1", *options)

    return run


@pytest.fixture
def answer(monkeypatch):
    """Return a function that makes the standard input a terminal with an answer."""

    def set_answer(text):
        monkeypatch.setattr(sys, "stdin", Terminal(text))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return set_answer


@pytest.mark.parametrize("case", MISPLACED_KEYS)
def test_without_a_terminal_a_key_that_would_change_what_runs_is_refused(submit, case):
    text, path = MISPLACED_KEYS[case]

    result = submit(text)

    assert result.code == INPUT_EXIT
    assert result.out == ""
    assert f"{path}: " in result.err
    assert result.err.count(f"{path}: ") == 1
    assert "add --accept-misplaced" in result.err
    assert QUESTION not in result.err


@pytest.mark.parametrize("case", MISPLACED_KEYS)
def test_with_accept_misplaced_a_key_is_only_a_warning(submit, case):
    text, path = MISPLACED_KEYS[case]

    result = submit(text, "--accept-misplaced")

    assert result.code == CONFIG_EXIT
    assert result.err.startswith("warning: line ")
    assert path in result.err


@pytest.mark.parametrize("lines", HARMLESS_LINES)
def test_a_warning_about_something_else_needs_no_answer(submit, lines):
    result = submit(VALID + lines)

    assert result.code == CONFIG_EXIT
    assert result.err.startswith("warning: line ")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("y\n", CONFIG_EXIT),
        (" YES\n", CONFIG_EXIT),
        ("n\n", INPUT_EXIT),
        ("yy\n", INPUT_EXIT),
        ("\n", INPUT_EXIT),
        ("", INPUT_EXIT),  # Ctrl-D
    ],
)
def test_on_a_terminal_submit_asks(submit, answer, text, code):
    answer(text)

    result = submit(MISPLACED_KEYS["container of a step"][0])

    assert result.code == code
    warning, question = result.err.splitlines()[:2]
    assert warning.startswith("warning: line 4: steps[0].container: is in a wrong place")
    assert QUESTION in question


def test_the_question_prints_nothing_on_stdout(submit, answer):
    answer("n\n")

    assert submit(MISPLACED_KEYS["container of a step"][0], "--json").out == ""


def test_ctrl_c_at_the_question_ends_the_command_as_interrupted(submit, answer, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    answer("")
    monkeypatch.setattr(sys.stdin, "readline", interrupt)

    result = submit(MISPLACED_KEYS["container of a step"][0])

    assert result.code == INTERRUPTED
    assert result.err.splitlines()[-1].endswith(QUESTION)


def test_without_such_a_key_submit_does_not_ask(submit, answer):
    answer("")

    assert submit(VALID).code == CONFIG_EXIT


def test_a_workflow_from_standard_input_is_refused_without_a_question(
    gridstead, monkeypatch, answer
):
    answer("y\n")
    text = MISPLACED_KEYS["container of a step"][0]
    monkeypatch.setattr(sys.stdin, "buffer", io.BytesIO(text.encode()), raising=False)

    result = gridstead("submit", "-", "--credits", "1")

    assert result.code == INPUT_EXIT
    assert QUESTION not in result.err


def test_strict_makes_each_key_an_error_even_if_misplaced_keys_are_accepted(submit):
    result = submit(VALID + "author: me\n", "--strict", "--accept-misplaced")

    assert result.code == INPUT_EXIT
    assert result.err.startswith("error: line 4: author: is not a known field")


def test_the_refusal_lists_the_keys_and_the_other_warnings_as_json(submit):
    result = submit(MISPLACED_KEYS["container of a step"][0] + "author: me\n", "--json")

    error = json.loads(result.err)["error"]
    assert error["code"] == "misplaced-keys"
    assert error["problems"] == [
        {
            "path": "steps[0].container",
            "line": 4,
            "reason": "is in a wrong place and has no effect",
            "hint": "It belongs in steps[].run.container.",
            "changes_run": True,
        }
    ]
    assert [warning["path"] for warning in error["warnings"]] == ["author"]


@pytest.mark.parametrize("options", [(), ("--watch",)])
def test_the_submitted_job_has_its_warnings_as_json(submit, monkeypatch, options):
    client = SimpleNamespace(job=lambda number: SimpleNamespace(number=number))
    monkeypatch.setattr(submit_command, "open_client", lambda _: client)
    monkeypatch.setattr(submit_command, "_store_and_request", lambda *_: 7)
    monkeypatch.setattr(submit_command, "job_to_json", lambda job: {"number": job.number})

    def watch(client, number, *, as_json, extra_fields):
        assert as_json
        submit_command.emit_result({"number": number} | extra_fields, "", as_json=True)

    monkeypatch.setattr(submit_command, "watch_job", watch)

    result = submit(VALID + "  network: pasta\n", "--accept-misplaced", "--json", *options)

    assert result.err == ""
    job = json.loads(result.out)
    assert job["number"] == 7
    (warning,) = job["warnings"]
    assert (warning["path"], warning["changes_run"]) == ("steps[0].network", True)
