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


@pytest.mark.parametrize("template", list(Template))
def test_template_names_its_json_schema_for_editors(gridstead, tmp_path, template):
    file = tmp_path / "workflow.yaml"

    gridstead("workflow", "init", "--template", template.value, "--output", file)

    first_line = file.read_text().splitlines()[0]
    assert first_line == "# yaml-language-server: $schema=workflow.schema.json"
    assert json.loads((tmp_path / "workflow.schema.json").read_text()) == json_schema()


def test_init_does_not_replace_an_existing_schema(gridstead, tmp_path):
    (tmp_path / "workflow.schema.json").write_text("existing text")

    result = gridstead("workflow", "init", "--output", tmp_path / "workflow.yaml")

    assert result.code == 0
    assert (tmp_path / "workflow.schema.json").read_text() == "existing text"


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


def test_validate_prints_warnings_together_with_errors(gridstead, tmp_path):
    file = tmp_path / "workflow.yaml"
    file.write_text("x-a: 1\nresources: {tasks: 0, cpusPerTask: 01, memPerCpu: 1}\nsteps: [{}]\n")

    result = gridstead("workflow", "validate", file)
    json_result = gridstead("workflow", "validate", "--json", file)

    assert result.code == json_result.code == 65
    reason = "has a leading zero; 01 is read as octal, which is 1"
    assert result.err.splitlines() == [
        "warning: line 1: x-a: is ignored, because the name starts with x-.",
        f"warning: line 2: resources.cpusPerTask: {reason}. Write 1 or 0o1.",
        "error: line 2: resources.tasks: must be at least 1, not 0",
    ]
    warnings = json.loads(json_result.err)["error"]["warnings"]
    assert [warning["path"] for warning in warnings] == ["x-a", "resources.cpusPerTask"]


VALID = "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\nsteps: [{}]\nauthor: me\n"
WARNING = {
    "path": "author",
    "line": 3,
    "reason": "is not a known field",
    "hint": "Known fields here: enableLogging, disableLogMarkers, resources, env, input, "
    "inputMode, output, continuousOutputSync, virtualNetworks, steps.",
    "changes_run": False,
}


def test_validate_prints_the_same_json_keys_for_a_valid_and_an_invalid_workflow(
    gridstead, tmp_path
):
    file = tmp_path / "workflow.yaml"
    file.write_text(VALID)
    valid_result = gridstead("workflow", "validate", "--json", file)
    file.write_text(VALID.replace("tasks: 1", "tasks: 0"))
    invalid_result = gridstead("workflow", "validate", "--json", file)

    assert (valid_result.code, invalid_result.code) == (0, 65)
    valid, invalid = json.loads(valid_result.out), json.loads(invalid_result.out)
    keys = ["valid", "workflow", "problems", "warnings", "unchecked_modules"]
    assert list(valid) == list(invalid) == keys
    assert (valid["valid"], invalid["valid"]) == (True, False)
    assert valid["warnings"] == invalid["warnings"] == [WARNING]
    assert valid["problems"] == []
    assert [problem["path"] for problem in invalid["problems"]] == ["resources.tasks"]
    assert valid["workflow"]["resources"]["tasks"] == 1
    assert invalid["workflow"] is None
    assert valid_result.err == ""


def test_validate_prints_at_most_100_warnings(gridstead, tmp_path):
    ignored_keys = "".join(f"x-{number}: 1\n" for number in range(150))
    resources = "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}\n"
    misplaced = "steps: [{container: {image: a}, run: {command: x}}]\n"
    file = tmp_path / "workflow.yaml"
    file.write_text(f"{ignored_keys}{resources}{misplaced}")

    result = gridstead("workflow", "validate", file)
    json_result = gridstead("workflow", "validate", "--json", file)

    lines = result.err.splitlines()
    assert "steps[0].container" in lines[0]  # keys that the job needs come first
    assert all(line.startswith("warning: ") for line in lines[:100])
    assert lines[100:] == ["51 more warnings are not printed; --json prints all of them"]
    assert len(json.loads(json_result.out)["warnings"]) == 151


def test_render_prints_warnings_as_json(gridstead, tmp_path):
    file = tmp_path / "workflow.yaml"
    file.write_text(VALID)

    result = gridstead("workflow", "render", "--json", file)

    document = json.loads(result.out)
    assert result.err == ""
    assert document["script"].startswith("#!")
    assert document["warnings"] == [WARNING]
