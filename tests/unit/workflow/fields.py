# SPDX-License-Identifier: Apache-2.0
"""All fields of the language and their places in a workflow, found by a walk through the schema."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.schema import Module, Workflow, model_in

ROOTS = (Workflow, Module)


def models():
    """Return each mapping of the language once."""
    models, remaining = [], list(ROOTS)
    while remaining:
        model = remaining.pop()
        if model not in models:
            models.append(model)
            inner = (model_in(field.annotation) for field in model.model_fields.values())
            remaining += filter(None, inner)
    return models


def fields():
    """Return each field by the names of its mapping and itself."""
    return {
        (name_of(model), field.alias): field
        for model in models()
        for field in model.model_fields.values()
    }


def text_fields():
    """Return the fields of texts or lists of texts."""
    return {key for key, field in fields().items() if _holds_text(field.annotation)}


def _holds_text(annotation):
    if get_origin(annotation) is Literal:
        return any(isinstance(value, str) for value in get_args(annotation))
    return annotation is str or any(_holds_text(part) for part in get_args(annotation))


def mappings_in(mapping, model=Workflow, path=()):
    """Yield the path, the model and the value of each mapping of a workflow or a module."""
    yield path, model, mapping
    annotations = {field.alias: field.annotation for field in model.model_fields.values()}
    for name, value in mapping.items():
        inner = model_in(annotations[name])
        if inner and isinstance(value, dict):
            yield from mappings_in(value, inner, (*path, name))
        elif inner:
            for number, item in enumerate(value):
                yield from mappings_in(item, inner, (*path, name, number))


def places_in(mapping, model=Workflow):
    """Yield the path and the field of each value that is not a mapping, also in lists."""
    for path, kind, inner in mappings_in(mapping, model):
        for name, value in inner.items():
            field = (name_of(kind), name)
            if isinstance(value, list):
                numbers = (n for n, item in enumerate(value) if not isinstance(item, dict))
                yield from (((*path, name, number), field) for number in numbers)
            elif not isinstance(value, dict):
                yield (*path, name), field


def value_at(mapping, path):
    """Return the value at a path."""
    for part in path:
        mapping = mapping[part]
    return mapping
