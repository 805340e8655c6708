# SPDX-License-Identifier: Apache-2.0
"""Reading a settings file, and saying what is wrong with one."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gridstead.config.values import Settings
from gridstead.errors import ConfigError

SHOWN = 80  # characters of a wrong value

AnySettings = TypeVar("AnySettings", bound="Settings")


def load(model: type[AnySettings], path: Path) -> AnySettings:
    """Return the settings of a file.

    Raises:
        ConfigError: The file cannot be read or breaks a rule; every broken field is named at once.
    """
    try:
        return model.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error
    except ValidationError as error:
        found = "; ".join(f"{place}: {why}" for place, why in _problems(model, error))
        hint = "docs/reference/settings.md lists every key."
        raise ConfigError(f"invalid settings in {path}", detail=found, hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML", detail=str(error)) from error


def problems(model: type[Settings], table: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return every broken field of a table, as ``key.key``, and why it is; nothing if it is good."""
    try:
        model.model_validate(table)
    except ValidationError as error:
        return _problems(model, error)
    return []


def _problems(model: type[Settings], error: ValidationError) -> list[tuple[str, str]]:
    return [(".".join(map(str, one["loc"])), _why(model, one)) for one in error.errors()]


def _why(model: type[Settings], error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "missing"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(
            str(error["loc"][-1]), _keys(model, error["loc"][:-1]), n=1
        )
        return "unknown key" + (f", did you mean {near[0]}?" if near else "")
    said, why = error["input"], error["msg"].removeprefix("Value error, ")
    if isinstance(said, Mapping):
        return why
    key = next((key for key in reversed(error["loc"]) if isinstance(key, str)), "")
    is_address = key.endswith(("url", "urls")) or "://" in repr(said)
    return f"{why}, found {(without_secret(str(said)) if is_address else repr(said))[:SHOWN]}"


def without_secret(address: str) -> str:
    """Return scheme, host and port of an address: a user, a path and a query may be keys of it.

    >>> without_secret("https://rpc.grid.example:8545/v3/3f9c0ffee")
    'https://rpc.grid.example:8545/...'
    """
    hidden = "what is not shown, as it may hold a key"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return hidden
    # Passwords may have slashes, so the user need not be where a URL has one.
    if not parts.scheme or not parts.hostname or "@" in address:
        return hidden
    where = f"{parts.scheme}://{parts.hostname}{f':{port}' if port is not None else ''}"
    return where if where == address else f"{where}/..."


def _keys(model: type[Settings], table: tuple[int | str, ...]) -> list[str]:
    """Return the keys that a table of the settings may have."""
    for name in table:
        if isinstance(name, int):
            continue  # one of several tables of a kind
        field = model.model_fields.get(str(name))
        inner = (
            [one for one in (field.annotation, *get_args(field.annotation)) if _is_table(one)]
            if field
            else []
        )
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _is_table(annotation: object) -> TypeGuard[type[Settings]]:
    return isinstance(annotation, type) and issubclass(annotation, Settings)
