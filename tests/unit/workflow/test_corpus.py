# SPDX-License-Identifier: Apache-2.0
"""Workflow files as grid users write them: accepted, rendered, and run on a simulated node.

``make test`` runs every file, ``make check`` a tenth of the files.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.unit.workflow.corpus import FILES, check, expectation, used_values
from tests.unit.workflow.corpus_node import CorpusNode
from tests.unit.workflow.fields import fields
from tests.unit.workflow.networks import helper_pids
from tests.unit.workflow.node import wait_for
from tests.unit.workflow.random_workflows import ALL_TESTS
from tests.unit.workflow.shell_checks import bash_errors

from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import render

CHOICES = {
    ("StepRun", "shell"): ("/bin/sh", "/bin/bash", "/bin/ash", "ENTRYPOINT"),
    ("StepRun", "mpi"): ("none", "pmi2", "pmix_v4"),
    ("StepRun", "network"): ("host", "slirp4netns", "pasta"),
    ("Mount", "options"): ("", "ro", "rw"),
    ("StepAsyncLaunch", "signalOnParentStepExit"): (0, 1, 2, 3, 9, 15),
    ("StepFor", "parallel"): (True, False),
}


def name_of_file(file):
    return file.stem


def test_the_corpus_has_at_least_120_files_of_15_to_80_lines():
    lengths = {file.name: len(file.read_text().splitlines()) for file in FILES}

    assert len(FILES) >= 120
    assert [name for name, length in lengths.items() if not 15 <= length <= 80] == []


def test_every_field_of_the_language_is_in_two_files_or_more():
    counts = Counter(dict.fromkeys(fields(), 0))
    for file in FILES:
        counts.update({key for key, _ in used_values(check(file).workflow)})

    assert [field for field, count in counts.items() if count < 2] == []


@pytest.mark.parametrize("key", CHOICES, ids=".".join)
def test_every_choice_of_a_field_is_in_two_files_or_more(key):
    counts = Counter(dict.fromkeys(CHOICES[key], 0))
    for file in FILES:
        values = used_values(check(file).workflow)
        counts.update({value for used_key, value in values if used_key == key})

    assert [value for value, count in counts.items() if count < 2] == []


@pytest.mark.parametrize("file", FILES, ids=name_of_file)
def test_a_file_is_accepted_with_the_warnings_that_it_names(file):
    warnings = [str(warning) for warning in check(file).warnings]

    expected = expectation(file).warns
    assert len(warnings) == len(expected), warnings
    for warning, start in zip(warnings, expected, strict=True):
        assert warning.startswith(start)


@pytest.mark.parametrize("file", FILES, ids=name_of_file)
def test_a_file_is_unchanged_after_it_is_sent_to_a_server(file):
    workflow = parse_workflow(file.read_text())

    assert from_graphql(workflow.to_graphql()) == workflow


def test_the_scripts_of_the_files_have_no_syntax_errors(tmp_path):
    scripts = []
    for file in FILES:
        script = tmp_path / f"{file.stem}.sh"
        script.write_text(render(check(file).workflow))
        scripts.append(script)

    assert not bash_errors(scripts)


def run_file(file, root):
    """Run a file, and check that it ends as it says and leaves nothing on the node."""
    expected = expectation(file)
    node = CorpusNode(root, expected)
    try:
        code, output = node.run_file(check(file).workflow)
        assert (code, node.started_steps) == (expected.ends, expected.runs), output
        for pid in helper_pids(node):
            wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())
        assert node.leftover_files == []
    finally:
        node.kill_jobs()


@pytest.mark.parametrize("file", FILES if ALL_TESTS else FILES[::10], ids=name_of_file)
def test_a_file_runs_the_steps_and_ends_as_it_says(file, tmp_path):
    run_file(file, tmp_path)
