# SPDX-License-Identifier: Apache-2.0
"""The language as a JSON Schema, for editors.

What it accepts may still break a rule that more than one field takes part in. What it refuses is
refused by parse too, but for fields in a wrong place and fields without a value.
"""

from __future__ import annotations

from gridstead.workflow.schema import Workflow

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, object]:
    """Return the schema of a file: a job at its top level, or under ``job``."""
    schema = Workflow.model_json_schema(by_alias=True)
    models = schema.pop("$defs")
    models["Job"] = schema
    for model in models.values():
        _without_titles(model)
    job = {"$ref": "#/$defs/Job"}
    under_job = {"type": "object", "properties": {"job": job}, "additionalProperties": False}
    return {
        "$schema": DIALECT,
        "title": "Workflow",
        "if": {"type": "object", "required": ["job"]},
        "then": under_job,
        "else": job,
        "$defs": dict(sorted(models.items())),
    }


def _without_titles(model: dict[str, object]) -> None:
    """The names of fields in other letters tell nobody anything."""
    properties = model["properties"]
    assert isinstance(properties, dict), "a mapping of the language has fields"
    for field in properties.values():
        field.pop("title", None)
