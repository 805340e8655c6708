# SPDX-License-Identifier: Apache-2.0
"""Tests that the program accepts the examples in docs/howto/simulate.md."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.unit.docs.pages import HOWTO, blocks, check_command, command_lines

from gridstead.config.scenario_file import load_scenario
from gridstead.services.simulation.figures import (
    CustomerFigures,
    PolicyFigures,
    ProviderFigures,
    WaitFigures,
)

PAGE = "simulate.md"


@pytest.mark.parametrize("text", blocks(PAGE, "yaml"))
def test_scenario_of_the_page_is_valid(tmp_path, text):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)

    load_scenario(path)


@pytest.mark.parametrize("line", command_lines(PAGE))
def test_command_and_options_of_the_page_exist(line):
    command, _, _ = line.partition(" > ")

    check_command(command)


@pytest.mark.parametrize("model", [CustomerFigures, PolicyFigures, ProviderFigures, WaitFigures])
def test_page_names_the_keys_of_the_figures(model):
    page = (HOWTO / PAGE).read_text()

    missing_keys = [field.name for field in fields(model) if f"`{field.name}`" not in page]
    assert missing_keys == []
