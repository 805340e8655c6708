# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands share. A group is a dataclass whose fields are options.

A command has a parameter whose type is the dataclass, and is decorated with ``expanded``. Typer
reads the options of a command from the signature of its function. The decorator therefore replaces
the parameter in the signature by one parameter for each field. Options without a default come
first. Otherwise the order is unchanged.

The module of the dataclass must import the names in the annotations of the fields at run time, not
only for type checking.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def expanded(
    *, without: Collection[str] = (), instead: Mapping[str, object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces the groups in a command's signature by their options.

    Args:
        without: Names of fields that are not options of this command. These fields have their
            defaults.
        instead: Annotations that replace the annotations of fields, by field name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        groups: dict[str, type[Any]] = {}
        options: dict[str, dict[str, inspect.Parameter]] = {}
        for name, hint in hints.items():
            if is_dataclass(hint) and isinstance(hint, type):
                groups[name] = hint
                options[name] = _options(hint, without, instead or {})

        @functools.wraps(command)
        def call_with_groups(**arguments: object) -> None:
            for name, group in groups.items():
                values = {option: arguments.pop(option) for option in options[name]}
                arguments[name] = group(**values)
            command(**arguments)

        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            if name in options:
                parameters += options[name].values()
            else:
                parameters.append(parameter.replace(annotation=hints[name]))
        parameters.sort(key=_has_default)
        _set_signature(call_with_groups, parameters)
        return call_with_groups

    return decorate


def _options(
    group: type[Any], without: Collection[str], instead: Mapping[str, object]
) -> dict[str, inspect.Parameter]:
    """Return the parameters for a group's options, by field name."""
    hints = get_type_hints(group, include_extras=True) | dict(instead)
    options: dict[str, inspect.Parameter] = {}
    for field in fields(group):
        if field.name in without:
            continue
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        options[field.name] = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=hints[field.name],
        )
    return options


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


def _set_signature(command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    keyword_parameters = [parameter.replace(kind=keyword_only) for parameter in parameters]
    command.__signature__ = inspect.Signature(keyword_parameters)  # type: ignore[attr-defined]
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    command.__annotations__ = {**annotations, "return": None}
