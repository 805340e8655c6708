# SPDX-License-Identifier: Apache-2.0
"""The text of docs/reference/settings.md, from the classes of the settings.

The facts come from the JSON schemas that pydantic generates from the classes. In an example of a
class, the text ``{service}`` represents the name of the file. If the value of a key is a table, the
example of the key contains only what differs from the examples in the table's class.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.cli.check_config import CLIENT, settings_models

Schema = Mapping[str, Any]
MODELS = settings_models()
MODELS[CLIENT] = MODELS.pop(CLIENT)  # make it the last section
INTRODUCTION = """\
# Settings

Files: {contents}.

Each service reads one TOML file, `/etc/gridstead/<service>.toml`. An unknown key is an error.
`gridstead check-config <service>` reports all errors of a file without connecting to other
services. The roles write the files of a site. To change a setting, change the variables of the
role, because the next run replaces the file.

`chain.rpc_url` is the key `rpc_url` of the table `[chain]`. `repositories[].name` is the key `name`
of each table `[[repositories]]`. *Required with `x`* means that the key is required if the file has
the table `[x]`. An integer is allowed for a float. An amount in credits has at most 18 decimals.
The files do not contain secrets. They contain the paths of files with secrets.

Each section ends with an example that sets every key. Optional keys may be omitted.
"""
SETTINGS_PATHS = {CLIENT: "~/.config/gridstead/client.toml"}
NOTES = {
    CLIENT: "The settings of a grid user's commands. Option `--config` or the environment\n"
    "variable `GRIDSTEAD_CONFIG` names another file.\n"
}
# The unit of a number is the unit of the first suffix that matches its key.
UNITS = {
    "_per_s": "per second",
    "_mib_per_hour": "MiB per hour",
    "_s": "seconds",
    "_hours": "hours",
    "_days": "days",
    "_mib": "MiB",
    "_gib": "GiB",
    "_credits": "credits",
}
LIMITS = {
    "minItems": "at least {} of them",
    "exclusiveMinimum": "more than {:g}",
    "minimum": "at least {:g}",
    "maximum": "at most {:g}",
    "maxLength": "at most {} characters",
    "pattern": "matches `{}`",
}
TABLE_HEAD = "| key | type | default | description | example |\n|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class SettingsKey:
    """A key of a settings file, with the schema of its value."""

    path: str
    schema: Schema
    table: Schema | None  # the schema of the table or of the array's tables, if the key has one
    default: str

    @property
    def name(self) -> str:
        """The key without the names of its tables."""
        return self.path.rpartition(".")[2]

    @property
    def is_array(self) -> bool:
        """Whether the value is an array."""
        return self.schema.get("type") == "array"


class SettingsFile:
    """A settings file."""

    def __init__(self, service: str) -> None:
        self.service = service
        self.schema: Schema = MODELS[service].model_json_schema()

    def section(self) -> str:
        """Return the section of the page about this file."""
        path = SETTINGS_PATHS.get(self.service, f"/etc/gridstead/{self.service}.toml")
        rows = "\n".join(self._rows(self.schema, "", "required"))
        return (
            f"## {self.service}\n\n{NOTES.get(self.service, '')}\n{TABLE_HEAD}\n{rows}\n\n"
            f"A complete `{path}`:\n\n```toml\n{self.example()}```\n"
        ).replace("\n\n\n", "\n\n")

    def example(self) -> str:
        """Return an example of the file with all its keys."""
        return "\n".join(self._document(self.schema, "")) + "\n"

    def keys(self, table: Schema, prefix: str, required_text: str) -> list[SettingsKey]:
        """Return the keys of a table. The keys whose values are tables are last.

        Args:
            table: The schema of the table.
            prefix: The text before each key, for example ``chain.``.
            required_text: The default of a required key, as a text.
        """
        keys = []
        examples = table.get("examples", [{}])[0]
        for name, key_schema in table["properties"].items():
            # An example of the table takes precedence over the example in the key's own schema.
            schema = (
                {**key_schema, "examples": [examples[name]]} if name in examples else key_schema
            )
            nested_table = self._table_of(schema)
            is_required = name in table.get("required", ())
            default = required_text if is_required else _default(schema["default"], nested_table)
            keys.append(SettingsKey(f"{prefix}{name}", schema, nested_table, default))
        return sorted(keys, key=lambda key: key.table is not None)

    def _rows(self, table: Schema, prefix: str, required_text: str) -> Iterator[str]:
        for key in self.keys(table, prefix, required_text):
            kind = type_of(key.name, key.schema)
            description = key.schema.get("description")
            if key.table is None:
                example = f"`{key.name} = {toml(self._example(key.schema))}`"
                yield f"| `{key.path}` | {kind} | {key.default} | {description or ''} | {example} |"
                continue
            header = f"`[[{key.path}]]`" if key.is_array else f"`[{key.path}]`"
            text = description or key.table["description"]
            yield f"| {header} | {kind} | {key.default} | {text} | |"
            path = f"{key.path}[]" if key.is_array else key.path
            is_optional_table = key.default == "none"
            nested_required_text = (
                f"required with `{key.path}`" if is_optional_table else required_text
            )
            yield from self._rows(key.table, f"{path}.", nested_required_text)

    def _document(self, table: Schema, prefix: str) -> Iterator[str]:
        for key in self.keys(table, prefix, ""):
            if key.table is None:
                yield f"{key.name} = {toml(self._example(key.schema))}"
                continue
            yield f"\n[[{key.path}]]" if key.is_array else f"\n[{key.path}]"
            yield from self._document(key.table, f"{key.path}.")

    def _table_of(self, schema: Schema) -> Schema | None:
        """Return the schema of the table in a value: a table, an array of tables or an option."""
        for candidate in (schema, schema.get("items", {}), *schema.get("anyOf", ())):
            if "$ref" in candidate:
                table = self.schema["$defs"][candidate["$ref"].rpartition("/")[2]]
                return {**table, "examples": schema.get("examples", [{}])}
        return None

    def _example(self, schema: Schema) -> object:
        value = schema["examples"][0] if "examples" in schema else schema.get("default")
        if value is None:
            raise ValueError(f"{self.service}.toml: no example of {schema['title']}")
        return json.loads(json.dumps(value).replace("{service}", self.service))


def page() -> str:
    """Return the text of the page."""
    contents = ",\n".join(f"[{service}](#{service})" for service in MODELS)
    sections = [SettingsFile(service).section() for service in MODELS]
    return "\n".join([INTRODUCTION.format(contents=contents), *sections])


def toml(value: object) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, Mapping):
        pairs = [f"{key} = {toml(item)}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)  # TOML writes strings, numbers and booleans as JSON does.


def type_of(name: str, schema: Schema) -> str:
    """Return the type, the unit and the limits of a value.

    >>> type_of("tick_s", {"type": "number", "exclusiveMinimum": 0, "maximum": 60})
    'float, seconds, more than 0, at most 60'
    """
    alternatives = [item for item in schema.get("anyOf", ()) if item != {"type": "null"}]
    if len(alternatives) > 1:  # A decimal number is a float, or a string for an exact value.
        alternatives = [{**alternatives[0], "type": "float or string"}]
    value = alternatives[0] if alternatives else schema
    # An integer that is more than n is at least n + 1. _limits() ignores the value None.
    if value.get("type") == "integer" and "exclusiveMinimum" in value:
        value = {**value, "minimum": value["exclusiveMinimum"] + 1, "exclusiveMinimum": None}
    return ", ".join([_kind(value), *_units(name), *_limits(value)])


def _units(name: str) -> list[str]:
    """Return a list with the unit in the suffix of a name, or an empty list."""
    for suffix, unit in UNITS.items():
        if name.endswith(suffix):
            return [unit]
    return []


def _limits(value: Schema) -> Iterator[str]:
    for key, text in LIMITS.items():
        limit = value.get(key)
        if limit is not None:
            yield text.format(limit)


def _kind(schema: Schema) -> str:
    """Return the TOML type of a value, with the format of a string."""
    if "$ref" in schema:
        return "table"
    if "enum" in schema:
        values = [f"`{value}`" for value in schema["enum"]]
        return f"string, one of {', '.join(values)}"
    if schema["type"] == "array":
        return f"array of {_plural(schema['items'])}"
    if schema["type"] == "object":
        return f"table of {_plural(schema['additionalProperties'])}"
    suffix = f" ({schema['format']})" if "format" in schema else ""
    return {"number": "float"}.get(schema["type"], schema["type"]) + suffix


def _plural(schema: Schema) -> str:
    kind, space, suffix = _kind(schema).partition(" ")
    return f"{kind}s{space}{suffix}"


def _default(value: object, table: Schema | None) -> str:
    if value is None:
        return "none"
    return f"`{toml(value)}`" if table is None else "the defaults of its keys"
