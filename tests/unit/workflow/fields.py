# SPDX-License-Identifier: Apache-2.0
"""All fields of the workflow language, and where they occur in a workflow or a module."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from gridstead.workflow.field_paths import name_of
from gridstead.workflow.schema import Module, Workflow, model_in

ROOTS = (Workflow, Module)


def models():
    """Return the model of each type of mapping in the language. No model is repeated."""
    models = []
    remaining_models = list(ROOTS)
    while remaining_models:
        model = remaining_models.pop()
        if model in models:
            continue
        models.append(model)
        for field in model.model_fields.values():
            inner_model = model_in(field.annotation)
            if inner_model:
                remaining_models.append(inner_model)
    return models


def fields():
    """Return all fields by (name of the mapping, name of the field)."""
    fields = {}
    for model in models():
        for field in model.model_fields.values():
            fields[name_of(model), field.alias] = field
    return fields


def text_fields():
    """Return the keys of fields that contain text or a list of texts."""
    return {key for key, field in fields().items() if _holds_text(field.annotation)}


def _holds_text(annotation):
    if get_origin(annotation) is Literal:
        return any(isinstance(value, str) for value in get_args(annotation))
    return annotation is str or any(_holds_text(part) for part in get_args(annotation))


def mappings_in(mapping, model=Workflow, path=()):
    """Yield (path, model, value) of each mapping in a workflow or a module."""
    yield path, model, mapping
    annotations = {field.alias: field.annotation for field in model.model_fields.values()}
    for name, value in mapping.items():
        inner_model = model_in(annotations[name])
        if inner_model and isinstance(value, dict):
            yield from mappings_in(value, inner_model, (*path, name))
        elif inner_model:
            for index, item in enumerate(value):
                yield from mappings_in(item, inner_model, (*path, name, index))


def scalars_in(mapping, model=Workflow):
    """Yield (path, field key) of each text, number and boolean, including items of lists."""
    for path, inner_model, inner_mapping in mappings_in(mapping, model):
        for name, value in inner_mapping.items():
            field = (name_of(inner_model), name)
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if not isinstance(item, dict):
                        yield (*path, name, index), field
            elif not isinstance(value, dict):
                yield (*path, name), field


def value_at(mapping, path):
    """Return the value at a path."""
    value = mapping
    for part in path:
        value = value[part]
    return value


def paths_in(value, path=()):
    """Yield the path of every value, outermost first."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from paths_in(item, (*path, key))


def with_value_at(value, path, new_value):
    """Return a copy with another value at the path. The copy shares the values at other paths."""
    if not path:
        return new_value
    changed_value = value.copy()
    changed_value[path[0]] = with_value_at(value[path[0]], path[1:], new_value)
    return changed_value
