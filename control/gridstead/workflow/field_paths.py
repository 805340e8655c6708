# SPDX-License-Identifier: Apache-2.0
"""Where each field of the language belongs, and which mapping stands at a place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pydantic import BaseModel

from gridstead.workflow.document import Path
from gridstead.workflow.schema import Workflow, model_in


def name_of(model: type[BaseModel]) -> str:
    """Return the mapping's name as people know it."""
    return "Job" if model is Workflow else model.__name__


def fields_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of a mapping's fields, as they are written."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def model_at(loc: Path, root: type[BaseModel] = Workflow) -> type[BaseModel] | None:
    """Return the mapping at a place in another; None if none can stand there."""
    model: type[BaseModel] | None = root
    for part in loc:
        if isinstance(part, int) or model is None:
            continue
        field = next((field for field in model.model_fields.values() if field.alias == part), None)
        model = model_in(field.annotation) if field else None
    return model


def is_secret(loc: Path, root: type[BaseModel] = Workflow) -> bool:
    """Return whether the value at a place of a mapping is a password, a key or a token."""
    names = [part for part in loc if isinstance(part, str)]
    model = model_at(tuple(names[:-1]), root)
    return (
        any(not field.repr for field in model.model_fields.values() if field.alias in names[-1:])
        if model
        else False
    )


def homes(field: str) -> tuple[str, ...]:
    """Return where a field may stand, as in ``steps[].run.env``; empty if the language has no such
    field.
    """
    return _homes().get(field, ())


@cache
def _homes() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for place, model in _models(Workflow, "", set()):
        for field in fields_of(model):
            found.setdefault(field, []).append(f"{place}{field}")
    return {field: tuple(places) for field, places in found.items()}


def _models(
    model: type[BaseModel], place: str, seen: set[type[BaseModel]]
) -> Iterator[tuple[str, type[BaseModel]]]:
    """Each mapping of the language once for each way to it that does not pass a step twice."""
    yield place, model
    around = {*seen, model}
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        if inner and inner not in around:
            is_list = "tuple" in str(field.annotation)
            yield from _models(
                inner, f"{place}{field.alias or name}{'[]' if is_list else ''}.", around
            )
