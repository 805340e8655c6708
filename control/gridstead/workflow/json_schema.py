# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the language, for editors.

A file that the schema accepts may still break a rule that concerns several fields. The parser
rejects each file that the schema rejects, with three exceptions. The parser accepts misplaced and
unknown keys, fields without a value, and unquoted scalars of other types, such as a number in a
text field.
"""

from __future__ import annotations

from gridstead.workflow.schema import Workflow

# `gridstead workflow init` writes the schema to this file. The templates name it in a comment.
FILE_NAME = "workflow.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_IGNORED_KEYS = {"^x-": True}


def json_schema() -> dict[str, object]:
    """Return the schema of a workflow file. The job is the whole file or its field ``job``."""
    schema = Workflow.model_json_schema(by_alias=True)
    models = schema.pop("$defs")
    models["Job"] = schema
    for model in models.values():
        _remove_titles(model)
        model["patternProperties"] = _IGNORED_KEYS
    job = {"$ref": "#/$defs/Job"}
    under_job = {
        "type": "object",
        "properties": {"job": job},
        "patternProperties": _IGNORED_KEYS,
        "additionalProperties": False,
    }
    return {
        "$schema": DIALECT,
        "title": "Workflow",
        "if": {"type": "object", "required": ["job"]},
        "then": under_job,
        "else": job,
        "$defs": dict(sorted(models.items())),
    }


def _remove_titles(model: dict[str, object]) -> None:
    """Remove the titles of a model's fields. A title only repeats the name of the field."""
    properties = model["properties"]
    assert isinstance(properties, dict), "every mapping of the language has fields"
    for field in properties.values():
        field.pop("title", None)
