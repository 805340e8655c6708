# SPDX-License-Identifier: Apache-2.0
"""Calls as text: the name of the call's class, a space and its fields as JSON."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import TypeAdapter

from gridstead.domain.calls import Call

_ADAPTERS: dict[str, TypeAdapter[Any]] = {kind.__name__: TypeAdapter(kind) for kind in get_args(Call)}


def to_text(call: Call) -> str:
    """Return the call as one line of text."""
    name = type(call).__name__
    return f"{name} {_ADAPTERS[name].dump_json(call).decode()}"


def from_text(text: str) -> Call:
    """Return the call that to_text() wrote."""
    name, _, fields = text.partition(" ")
    call: Call = _ADAPTERS[name].validate_json(fields)
    return call
