# SPDX-License-Identifier: Apache-2.0
"""Reads a scenario file, and reports all invalid keys at once.

Every scalar is read as text, so that prices are exact, and 010 is not an octal number.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

import yaml

from gridstead.config.reading import setting_diagnostics, setting_key
from gridstead.config.simulation import SimulationSettings
from gridstead.domain.diagnostic import Diagnostic
from gridstead.errors import InvalidInput

MAX_BYTES = 1 << 20
_HINT = "`gridstead simulate --example` prints a scenario that explains the keys."

_Value = str | list["_Value"] | dict[str, "_Value"]


def load_scenario(path: Path) -> SimulationSettings:
    """Return the scenario in a file.

    Raises:
        InvalidInput: If the file cannot be read or a key is invalid. The detail lists all invalid
            keys.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}", detail=str(error), hint=_HINT) from error
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"cannot read {path}", detail=f"it is larger than {MAX_BYTES} bytes")
    try:
        table = parse_yaml(text.decode())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise InvalidInput(f"{path} is not valid YAML", detail=detail, hint=_HINT) from error
    if not isinstance(table, dict):
        raise InvalidInput(
            f"invalid scenario {path}", detail="the file is not a mapping of keys", hint=_HINT
        )
    diagnostics = _innermost(setting_diagnostics(SimulationSettings, table))
    if diagnostics:
        problem_texts = []
        for diagnostic in diagnostics:
            key = setting_key(diagnostic)
            problem_texts.append(f"{key}: {diagnostic.text}" if key else diagnostic.text)
        raise InvalidInput(f"invalid scenario {path}", detail="; ".join(problem_texts), hint=_HINT)
    return SimulationSettings.model_validate(table)


def _innermost(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Leave out the diagnostics of lists and tables whose items have diagnostics themselves."""
    diagnostics = list(diagnostics)
    outer_places: set[tuple[str, ...]] = set()
    for diagnostic in diagnostics:
        outer_places.update(accumulate((part,) for part in diagnostic.where[:-1]))
    return [diagnostic for diagnostic in diagnostics if diagnostic.where not in outer_places]


def parse_yaml(text: str) -> _Value:
    """Return the value of a YAML document. All scalars are texts.

    Raises:
        YAMLError: If the text is not one YAML document.
        ValueError: If a key is duplicate or not a text, or if the document has an alias.
    """
    node = yaml.compose(text, Loader=yaml.BaseLoader)
    if node is None:
        raise ValueError("the file is empty")
    return _value(node, set())


def _value(node: yaml.Node, seen: set[int]) -> _Value:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise ValueError(f"line {line}: a value with an alias; aliases are not supported")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, seen) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        text: str = node.value
        return text
    table: dict[str, _Value] = {}
    for key_node, value_node in node.value:
        key = _value(key_node, seen)
        if not isinstance(key, str):
            raise ValueError(f"line {line}: a key that is not a text")  # noqa: TRY004 - see above
        if key in table:
            raise ValueError(f"line {key_node.start_mark.line + 1}: duplicate key {key!r}")
        table[key] = _value(value_node, seen)
    return table
