# SPDX-License-Identifier: Apache-2.0
"""Checks whether a value has the type of a role's specification, before Ansible converts the value.

Ansible accepts text as a table and a list as text, and the role then fails on the converted value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = frozenset({"str", "path"})


def misfit(option: Mapping[str, Any], value: Any) -> str | None:
    """Return what is wrong with the type of a value; None if it is right or not checked here.

    Args:
        option: The specification of the variable in ``argument_specs.yml``.
        value: The value. An empty value is right if the variable has no default.
    """
    if value is None:
        if option.get("default") is None:
            return None
        return "is empty; remove the line to use the default of the role"
    if option.get("type") == "dict":
        return _table_misfit(option, value)
    if option.get("type") == "list":
        return _list_misfit(option, value)
    return _text_misfit(option.get("type"), value)


def _table_misfit(option: Mapping[str, Any], value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return f"is {_form(value)}, but must be a table"
    for key in value:
        if "options" in option and not isinstance(key, str):
            return f'has the key "{key}", but a key must be text'
    return None


def _list_misfit(option: Mapping[str, Any], value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return f"is {_form(value)}, but must be a list"
    for number, item in enumerate(value, start=1):
        if option.get("elements") == "dict" and not isinstance(item, Mapping):
            return f"number {number} is {_form(item)}, but must be a table"
        wrong = _text_misfit(option.get("elements"), item)
        if wrong:
            return f"number {number} {wrong}"
    return None


def _text_misfit(kind: str | None, value: Any) -> str | None:
    if kind in _TEXTS and isinstance(value, Mapping | list):
        return f"is {_form(value)}, but must be text"
    return None


def _form(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return "text"
