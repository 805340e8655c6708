# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands share: a dataclass whose fields are options.

A command has a parameter of such a class and is decorated with ``expanded``. Typer reads the
signature of a command. The decorator therefore changes the signature: the fields replace the
parameter. Options without a default come first, otherwise their order is kept. The module of the
class must import the names in its annotations at run time, not only for type checking.
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
    """Return a decorator that adds the options of a command's groups to its signature.

    Args:
        without: Fields that are not options of this command; they have their default.
        instead: Annotations that replace those of a field in this command, by field name.
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
        def expand(**given: object) -> None:
            for name, group in groups.items():
                values = {option: given.pop(option) for option in options[name]}
                given[name] = group(**values)
            command(**given)

        flat: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            if name in options:
                flat += options[name].values()
            else:
                flat.append(parameter.replace(annotation=hints[name]))
        flat.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        _set_signature(expand, flat)
        return expand

    return decorate


def _options(
    group: type[Any], without: Collection[str], instead: Mapping[str, object]
) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True) | dict(instead)
    options: dict[str, inspect.Parameter] = {}
    for field in fields(group):
        if field.name in without:
            continue
        options[field.name] = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
    return options


def _set_signature(command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    command.__annotations__["return"] = None
