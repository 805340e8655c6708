# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, written once: a *bundle* is a dataclass whose fields are
options.

A command takes a bundle as one parameter and is decorated with ``expanded``. Typer reads
signatures, so the decorator gives the command one that has the bundle's fields in the bundle's
place; those without a default come first, else as they stand. A bundle's module needs at run time
what its annotations name.
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
    """Return a decorator that puts the fields of a command's bundles into its signature.

    Args:
        without: Fields that this command has no option for; they keep their default.
        instead: Annotations of fields that this command words in its own way, by field.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        bundles = {
            name: hint
            for name, hint in hints.items()
            if is_dataclass(hint) and isinstance(hint, type)
        }
        parts = {name: _options(bundle, without, instead or {}) for name, bundle in bundles.items()}

        @functools.wraps(command)
        def expand(**given: object) -> None:
            made = {
                name: bundles[name](**{one: given.pop(one) for one in parts[name]})
                for name in bundles
            }
            command(**given, **made)

        flat: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            flat += (
                parts[name].values()
                if name in parts
                else [parameter.replace(annotation=hints[name])]
            )
        flat.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        _sign(expand, flat)
        return expand

    return decorate


def _options(
    bundle: type[Any], without: Collection[str], instead: Mapping[str, object]
) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True) | dict(instead)
    return {
        one.name: inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=hints[one.name],
        )
        for one in fields(bundle)
        if one.name not in without
    }


def _sign(command: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named} | {
        "return": None
    }
