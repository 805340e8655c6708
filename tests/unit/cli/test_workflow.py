# SPDX-License-Identifier: Apache-2.0
"""`gridstead workflow`: templates are valid, and the schema is printed."""

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

    done = gridstead("workflow", "init", "--template", template.value, "--output", file)

    assert (done.code, done.err) == (0, "")
    assert check_workflow(file.read_text(), strict=True).warnings == ()


def test_every_template_file_is_an_option():
    folder = Path("control/gridstead/workflow/templates")

    assert {template.value for template in Template} == {
        path.stem for path in folder.glob("*.yaml")
    }


def test_existing_file_is_not_replaced(gridstead, tmp_path):
    file = tmp_path / "workflow.yaml"
    file.write_text("mine")

    done = gridstead("workflow", "init", "--output", file)

    assert done.code != 0
    assert file.read_text() == "mine"


def test_schema_is_printed_as_json(gridstead):
    assert json.loads(gridstead("workflow", "schema").out) == json_schema()
