# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead workflow init` and `gridstead workflow schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gridstead.cli.workflow import Template
from gridstead.workflow.json_schema import json_schema
from gridstead.workflow.parse import check_workflow


@pytest.mark.parametrize("template", list(Template))
def test_template_is_a_valid_workflow(gridstead, tmp_path, template):
    file = tmp_path / "workflow.yaml"

    result = gridstead("workflow", "init", "--template", template.value, "--output", file)

    assert result.code == 0
    assert result.err == ""
    assert check_workflow(file.read_text(), strict=True).warnings == ()


def test_the_values_of_option_template_are_the_names_of_the_template_files():
    folder = Path("control/gridstead/workflow/templates")

    options = {template.value for template in Template}
    assert options == {path.stem for path in folder.glob("*.yaml")}


def test_init_does_not_replace_an_existing_file(gridstead, tmp_path):
    file = tmp_path / "workflow.yaml"
    file.write_text("existing text")

    result = gridstead("workflow", "init", "--output", file)

    assert result.code != 0
    assert file.read_text() == "existing text"


def test_schema_is_printed_as_json(gridstead):
    result = gridstead("workflow", "schema")

    assert json.loads(result.out) == json_schema()
