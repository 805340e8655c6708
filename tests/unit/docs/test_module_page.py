# SPDX-License-Identifier: Apache-2.0
"""Tests that the examples in docs/howto/modules.md work."""

from __future__ import annotations

import pytest
from tests.unit.docs.pages import blocks, check_command, command_lines
from tests.unit.workflow.node import Node

from gridstead.workflow.parse import check_workflow

PAGE = "modules.md"


def test_the_workflow_of_the_page_runs_with_the_module_of_the_page(tmp_path):
    workflow_text, module_text = blocks(PAGE, "yaml")
    expected_output, _ = blocks(PAGE, "text")
    checked = check_workflow(workflow_text, strict=True, fetch_module=lambda _: module_text)
    workflow = checked.workflow.model_copy(update={"enable_logging": False})
    node = Node(tmp_path)

    result = node.run(workflow)

    assert checked.warnings == ()
    assert result == (0, expected_output)


@pytest.mark.parametrize("line", command_lines(PAGE))
def test_command_and_options_of_the_page_exist(line):
    check_command(line)
