# SPDX-License-Identifier: Apache-2.0
"""Every field of the language, and where a workflow has it: found by walking the schema, so that
none is forgotten.
"""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.schema import Module, Workflow, model_in

ROOTS = (Workflow, Module)


def models():
    """Each mapping of the language once."""
    found, left = [], list(ROOTS)
    while left:
        model = left.pop()
        if model not in found:
            found.append(model)
            left += filter(
                None, (model_in(field.annotation) for field in model.model_fields.values())
            )
    return found


def fields():
    """Each field by the name of its mapping and its own, with what it holds."""
    return {
        (name_of(model), field.alias): field
        for model in models()
        for field in model.model_fields.values()
    }


def text_fields():
    """The fields that hold texts or lists of texts."""
    return {key for key, field in fields().items() if _holds_text(field.annotation)}


def _holds_text(annotation):
    if get_origin(annotation) is Literal:
        return any(isinstance(value, str) for value in get_args(annotation))
    return annotation is str or any(_holds_text(part) for part in get_args(annotation))


def mappings_in(mapping, model=Workflow, path=()):
    """Each mapping of a workflow or a module: its place, its model and itself."""
    yield path, model, mapping
    for name, item in mapping.items():
        inner = model_in(
            next(field.annotation for field in model.model_fields.values() if field.alias == name)
        )
        if inner and isinstance(item, dict):
            yield from mappings_in(item, inner, (*path, name))
        elif inner:
            for number, one in enumerate(item):
                yield from mappings_in(one, inner, (*path, name, number))


def places_in(mapping, model=Workflow):
    """Each value of a workflow or a module that is no mapping, in lists too: its place and its
    field.
    """
    for path, kind, here in mappings_in(mapping, model):
        for name, item in here.items():
            if isinstance(item, list):
                yield from (
                    ((*path, name, n), (name_of(kind), name))
                    for n, one in enumerate(item)
                    if not isinstance(one, dict)
                )
            elif not isinstance(item, dict):
                yield (*path, name), (name_of(kind), name)


def at(mapping, path):
    """What stands at a place."""
    for part in path:
        mapping = mapping[part]
    return mapping
