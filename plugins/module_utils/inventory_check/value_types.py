# SPDX-License-Identifier: Apache-2.0
"""Checks whether a value has the type that a role's specification requires.

Ansible accepts a text where a table is required, and a list where a text is required. It converts
the value, and the role then fails because of the converted value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT_TYPES = frozenset({"str", "path"})


def type_fault(option: Mapping[str, Any], value: Any) -> str | None:
    """Return what is wrong with the type of a value. None if the type is right.

    Only tables, lists and texts are checked. Ansible itself checks other types.

    Args:
        option: The specification of the variable in ``argument_specs.yml``.
        value: The value. A variable without a default may be None.
    """
    if value is None:
        if option.get("default") is None:
            return None
        return "is empty; remove the line to use the default of the role"
    if option.get("type") == "dict":
        return _table_fault(option, value)
    if option.get("type") == "list":
        return _list_fault(option, value)
    return _text_fault(option.get("type"), value)


def _table_fault(option: Mapping[str, Any], value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return f"is {_type_name(value)}, but must be a table"
    for key in value:
        if "options" in option and not isinstance(key, str):
            return f'has the key "{key}", but a key must be text'
    return None


def _list_fault(option: Mapping[str, Any], value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return f"is {_type_name(value)}, but must be a list"
    for number, item in enumerate(value, start=1):
        if option.get("elements") == "dict" and not isinstance(item, Mapping):
            return f"number {number} is {_type_name(item)}, but must be a table"
        fault = _text_fault(option.get("elements"), item)
        if fault:
            return f"number {number} {fault}"
    return None


def _text_fault(expected_type: str | None, value: Any) -> str | None:
    if expected_type in _TEXT_TYPES and isinstance(value, Mapping | list):
        return f"is {_type_name(value)}, but must be text"
    return None


def _type_name(value: Any) -> str:
    """Return the type of a value. Return the value itself if it is a number or a boolean."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return "text" if isinstance(value, str) else f"{value}"
