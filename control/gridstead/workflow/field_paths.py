# SPDX-License-Identifier: Apache-2.0
"""Finds the model of the mapping at a path, and the paths at which a field is valid.

Each type of mapping in the workflow language is a pydantic model, such as ``Step``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gridstead.workflow.paths import Path
from gridstead.workflow.schema import Workflow, model_in


def name_of(model: type[BaseModel]) -> str:
    """Return the name of the model in the documentation."""
    return "Job" if model is Workflow else model.__name__


def fields_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the model's fields, as written in a file."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def is_list(annotation: object) -> bool:
    """Return whether a field of this type is a list in a file. In the model it is a tuple."""
    return get_origin(annotation) is tuple or any(map(is_list, get_args(annotation)))


def model_at(loc: Path, root: type[BaseModel] = Workflow) -> type[BaseModel] | None:
    """Return the model of the mapping at path ``loc`` in a mapping of model ``root``.

    Returns:
        None if there is no mapping at this path.
    """
    model: type[BaseModel] | None = root
    for part in loc:
        if isinstance(part, int) or model is None:
            continue
        field = _field(model, part)
        model = model_in(field.annotation) if field else None
    return model


def _field(model: type[BaseModel], alias: str) -> FieldInfo | None:
    for field in model.model_fields.values():
        if field.alias == alias:
            return field
    return None


def is_secret(loc: Path, root: type[BaseModel] = Workflow) -> bool:
    """Return whether the value at a path is a password, a key or a token."""
    names = [part for part in loc if isinstance(part, str)]
    model = model_at(tuple(names[:-1]), root)
    if model is None:
        return False
    field = _field(model, names[-1]) if names else None
    # Secret fields are declared with repr=False.
    return field is not None and not field.repr


def valid_paths(field: str) -> tuple[str, ...]:
    """Return all paths of a field, such as ``steps[].run.env``. Empty if the field is unknown."""
    return _paths_by_field().get(field, ())


def all_fields() -> Iterable[str]:
    """Return the names of all fields of the language."""
    return _paths_by_field().keys()


@cache
def _paths_by_field() -> dict[str, tuple[str, ...]]:
    paths: dict[str, list[str]] = {}
    for prefix, model in _models(Workflow, "", set()):
        for field in fields_of(model):
            paths.setdefault(field, []).append(f"{prefix}{field}")
    return {field: tuple(field_paths) for field, field_paths in paths.items()}


def _models(
    model: type[BaseModel], prefix: str, outer_models: set[type[BaseModel]]
) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield a model and all models inside it, each with the path of its mapping.

    A path ends with a dot, such as ``steps[].run.``. A model inside itself is omitted, such as a
    step in a step.
    """
    yield prefix, model
    enclosing = {*outer_models, model}
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        if inner and inner not in enclosing:
            brackets = "[]" if is_list(field.annotation) else ""
            inner_prefix = f"{prefix}{field.alias or name}{brackets}."
            yield from _models(inner, inner_prefix, enclosing)
