# SPDX-License-Identifier: Apache-2.0
"""Whether a value has the form that a role's specification names, before Ansible converts it.

Ansible takes text for a table and a list for text, and a role then stumbles over what it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = frozenset({"str", "path"})


def misfit(option: Mapping[str, Any], value: Any) -> str | None:
    """Return what is wrong with the form of a value, nothing if that is right or of no concern
    here.

    Args:
        option: What ``argument_specs.yml`` says of the variable.
        value: Its value. Nothing is right where there is no default for it to replace.
    """
    if value is None:
        return (
            "is empty; without the line it is as the role has it"
            if option.get("default") is not None
            else None
        )
    if option.get("type") == "dict":
        if not isinstance(value, Mapping):
            return f"is {_form(value)}, and a table is wanted"
        unnamed = [key for key in value if "options" in option and not isinstance(key, str)]
        return f'has "{unnamed[0]}" for a name, and text is wanted' if unnamed else None
    if option.get("type") != "list":
        return _no_text(option.get("type"), value)
    if not isinstance(value, list | tuple):
        return f"is {_form(value)}, and a list is wanted"
    for number, one in enumerate(value, start=1):
        if option.get("elements") == "dict" and not isinstance(one, Mapping):
            return f"number {number} is {_form(one)}, and a table is wanted"
        if wrong := _no_text(option.get("elements"), one):
            return f"number {number} {wrong}"
    return None


def _no_text(kind: str | None, value: Any) -> str | None:
    return (
        f"is {_form(value)}, and text is wanted"
        if kind in _TEXTS and isinstance(value, Mapping | list)
        else None
    )


def _form(value: Any) -> str:
    return (
        "a table"
        if isinstance(value, Mapping)
        else "a list"
        if isinstance(value, list | tuple)
        else "no more than text"
    )
