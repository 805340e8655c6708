# SPDX-License-Identifier: Apache-2.0
"""Tests of rendered scripts: recorded scripts of the examples, and properties of all scripts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.workflow.random_workflows import fetch_module
from tests.unit.workflow.shell_checks import slurm_directives
from tests.unit.workflow.strategies import nested_workflows, texts

from gridstead.errors import InvalidInput
from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import quote, render

EXAMPLES = sorted(Path("examples").glob("*.yaml"))
GOLDEN = Path(__file__).parent / "golden"


def test_the_examples_exist():
    assert len(EXAMPLES) == 7


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_renders_to_its_recorded_script(example):
    """``python -m tests.unit.workflow.record`` updates the recorded scripts after a change."""
    workflow = parse_workflow(example.read_text())

    assert (GOLDEN / f"{example.stem}.sh").read_text() == render(workflow)


def test_each_recorded_script_belongs_to_an_example():
    """tools/lint checks the recorded scripts with shellcheck, as it does all scripts in git."""
    names = {path.stem for path in GOLDEN.glob("*.sh")}

    assert names == {path.stem for path in EXAMPLES}


def first_command(script):
    for line in script.split("\n"):
        if line.strip() and not line.startswith("#"):
            return line
    return None


@given(nested_workflows)
@settings(max_examples=100)
def test_slurm_reads_no_directive_from_a_script(workflow):
    """sbatch reads directives before the first command, and refuses DOS line ends."""
    script = render(workflow)

    assert script.startswith("#!/bin/bash -l\n")
    assert first_command(script) == "set -euo pipefail"
    assert slurm_directives(script) == []
    assert "\r" not in script


@given(nested_workflows)
@settings(max_examples=50)
def test_the_same_workflow_renders_to_the_same_script(workflow):
    same_workflow = from_graphql(workflow.to_graphql(), fetch_module=fetch_module)

    assert render(workflow) == render(same_workflow)


@given(st.lists(texts, min_size=1, max_size=20))
@settings(max_examples=60)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bash_reads_quoted_text_unchanged(locale, some_texts):
    script = "printf '%s\\0' " + " ".join(map(quote, some_texts))

    result = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        check=True,
        env={"LC_ALL": locale, "HOME": "/home/x"},
    )

    assert result.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1] == some_texts


def test_secret_variables_occur_only_at_the_start_of_a_script():
    workflow = parse_workflow(Path("examples/hello-world.yaml").read_text())
    script = render(workflow)

    # At this line, the script has started again without secrets in its environment.
    _, _, rest = script.partition("private='' writer=''")
    assert "GRIDSTEAD_LOG_TOKEN" in script
    assert not re.search("GRIDSTEAD_LOG", rest)


def test_without_secrets_a_workflow_runs_without_logging_and_prints_a_message():
    workflow = parse_workflow(Path("examples/hello-world.yaml").read_text())
    script = render(workflow, secrets_beside=False)

    assert "GRIDSTEAD_LOG" not in script
    assert "gridstead-log-writer" not in script
    assert "logging is off" in script


def many_steps(**step):
    """Return 1,020 equal steps in four lists."""
    return [{"steps": [step] * 255}] * 4


def long_environment():
    prefix = "A" * 100
    return [{"key": f"{prefix}{number}", "value": ""} for number in range(256)]


def with_password(username, password):
    container = {"image": "a", "username": username, "password": password}
    return {"run": {"command": "a", "container": container}}


@pytest.mark.parametrize(
    ("workflow", "error"),
    [
        (
            {"steps": [{"run": {"command": "'" * 90_000}}] * 3},
            r"the script has at least 1[0-9]{6} bytes",
        ),
        (
            {"env": [{"key": "A", "value": "'" * 60_000}] * 4, "steps": [{}]},
            r"the script has at least 1[0-9]{6} bytes",
        ),
        (
            {
                "env": long_environment(),
                "steps": many_steps(run={"command": "a", "container": {"image": "a"}}),
            },
            r"the script has at least 10[0-9]{5} bytes",
        ),
        (
            {"steps": [with_password(str(n), "x" * 2000) for n in range(62)]},
            r"the secrets have at least 124[0-9]{3} bytes, and the limit is 122880 bytes",
        ),
    ],
)
def test_a_script_or_secrets_that_are_too_large_are_refused(workflow, error):
    """The script of the third workflow would have 38 MB."""
    resources = {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 0}

    with pytest.raises(InvalidInput, match=error):
        render(from_graphql({"resources": resources, **workflow}))


def test_gpus_are_requested_if_and_only_if_the_job_has_gpus():
    with_gpus = from_graphql(
        {
            "resources": {"tasks": 2, "cpusPerTask": 1, "memPerCpu": 1, "gpus": 4},
            "steps": [
                {"run": {"command": "a", "resources": {"tasks": 2, "gpusPerTask": 2}}},
                {"run": {"command": "b"}},
            ],
        }
    )
    without_gpus = parse_workflow(Path("examples/hello-world.yaml").read_text())

    assert re.findall("--gpus.*=[0-9]+", render(with_gpus)) == [
        "--gpus=4 --gpus-per-task=2",
        "--gpus=0",
    ]
    assert "--gpus" not in render(without_gpus)
