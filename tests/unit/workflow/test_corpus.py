# SPDX-License-Identifier: Apache-2.0
"""Workflow files as grid users write them: accepted, rendered, and run on a simulated node.

``make test`` runs every file, ``make check`` a tenth of the files.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.unit.workflow.corpus import FILES, check, expectation, used_fields
from tests.unit.workflow.corpus_node import CorpusNode
from tests.unit.workflow.fields import fields
from tests.unit.workflow.networks import helper_pids
from tests.unit.workflow.node import wait_for
from tests.unit.workflow.random_workflows import DIVISOR
from tests.unit.workflow.shell_checks import bash_errors

from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import render

WAITING_FILES = [file for file in FILES if expectation(file).waits]
WORKING_FILES = [file for file in FILES if file not in WAITING_FILES]


def name_of_file(file):
    return file.stem


def test_the_corpus_has_at_least_120_files_of_15_to_80_lines():
    lengths = {file.name: len(file.read_text().splitlines()) for file in FILES}

    assert len(FILES) >= 120
    assert [name for name, length in lengths.items() if not 15 <= length <= 80] == []


def test_every_field_of_the_language_is_in_two_files_or_more():
    counts = Counter(dict.fromkeys(fields(), 0))
    for file in WORKING_FILES:
        counts.update(used_fields(check(file).workflow))

    assert [field for field, count in counts.items() if count < 2] == []


@pytest.mark.parametrize("file", WORKING_FILES, ids=name_of_file)
def test_a_file_is_accepted_with_the_warnings_that_it_names(file):
    warnings = [str(warning) for warning in check(file).warnings]

    expected = expectation(file).warns
    assert len(warnings) == len(expected), warnings
    for warning, start in zip(warnings, expected, strict=True):
        assert warning.startswith(start)


@pytest.mark.parametrize("file", WORKING_FILES, ids=name_of_file)
def test_a_file_is_unchanged_after_it_is_sent_to_a_server(file):
    workflow = parse_workflow(file.read_text())

    assert from_graphql(workflow.to_graphql()) == workflow


def test_the_scripts_of_the_files_have_no_syntax_errors(tmp_path):
    scripts = []
    for file in WORKING_FILES:
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


@pytest.mark.parametrize("file", WORKING_FILES[::DIVISOR], ids=name_of_file)
def test_a_file_runs_the_steps_and_ends_as_it_says(file, tmp_path):
    run_file(file, tmp_path)


@pytest.mark.parametrize("file", WAITING_FILES, ids=name_of_file)
def test_a_file_that_waits_does_not_work_yet(file, tmp_path, request):
    """If the file works now, remove its line ``waits``."""
    request.applymarker(pytest.mark.xfail(reason=expectation(file).waits, strict=True))

    run_file(file, tmp_path)
