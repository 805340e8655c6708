# SPDX-License-Identifier: Apache-2.0
"""Tests that the programs accept the examples in docs/howto/use-the-grid.md."""

from __future__ import annotations

import tomllib

import pytest
from tests.unit.docs.pages import blocks, blocks_of, check_command, command_lines

from gridstead.config import ClientSettings
from gridstead.workflow.parse import check_workflow

PAGE = "use-the-grid.md"


def test_page_has_blocks_of_each_language():
    assert {name for name, _ in blocks_of(PAGE)} == {"sh", "text", "toml", "yaml"}


@pytest.mark.parametrize("text", blocks(PAGE, "yaml"))
def test_workflow_of_the_page_is_valid(text):
    checked_workflow = check_workflow(text, strict=True)

    assert checked_workflow.warnings == ()


@pytest.mark.parametrize("text", blocks(PAGE, "toml"))
def test_settings_of_the_page_are_valid(text):
    ClientSettings.model_validate(tomllib.loads(text))


@pytest.mark.parametrize("line", command_lines(PAGE))
def test_command_and_options_of_the_page_exist(line):
    check_command(line)
