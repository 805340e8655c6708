# SPDX-License-Identifier: Apache-2.0
"""Reads a settings file and reports every setting that is wrong."""

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
from gridstead.domain.diagnostic import Diagnostic
from gridstead.errors import ConfigError

SHOWN = 80  # maximum number of characters of a wrong value in a message
HIDDEN_ADDRESS = "a value that is not shown because it may contain a key"

AnySettings = TypeVar("AnySettings", bound="Settings")


def load(model: type[AnySettings], path: Path) -> AnySettings:
    """Return the settings of a file.

    Raises:
        ConfigError: If the file cannot be read or a setting is wrong. The detail names every wrong
            setting.
    """
    try:
        return model.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error
    except ValidationError as error:
        lines = [f"{key_of(wrong)}: {wrong.text}" for wrong in _diagnostics(model, error)]
        hint = "docs/reference/settings.md lists every key."
        raise ConfigError(f"invalid settings in {path}", detail="; ".join(lines), hint=hint) from (
            error
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML", detail=str(error)) from error


def problems(model: type[Settings], table: Mapping[str, object]) -> list[Diagnostic]:
    """Return a diagnostic of every wrong setting of a table. The list is empty if all are right."""
    try:
        model.model_validate(table)
    except ValidationError as error:
        return _diagnostics(model, error)
    return []


def key_of(diagnostic: Diagnostic) -> str:
    """Return the name of a wrong setting, for example ``chain.rpc_url``."""
    return ".".join(diagnostic.where)


def without_secret(address: str) -> str:
    """Return the scheme, host and port of an address. The user, path and query may contain a key.

    >>> without_secret("https://rpc.grid.example:8545/v3/3f9c0ffee")
    'https://rpc.grid.example:8545/...'
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return HIDDEN_ADDRESS
    # A password may contain a slash. So the user may be in a part that is not the user of the URL.
    if not parts.scheme or not parts.hostname or "@" in address:
        return HIDDEN_ADDRESS
    origin = f"{parts.scheme}://{parts.hostname}"
    if port is not None:
        origin += f":{port}"
    return origin if origin == address else f"{origin}/..."


def _diagnostics(model: type[Settings], error: ValidationError) -> list[Diagnostic]:
    return [_diagnostic(model, details) for details in error.errors()]


def _diagnostic(model: type[Settings], error: ErrorDetails) -> Diagnostic:
    where = tuple(map(str, error["loc"]))
    if error["type"] == "missing":
        return Diagnostic(where=where, what="missing")
    if error["type"] == "extra_forbidden":
        return Diagnostic(where=where, what=f"unknown key{_guess(model, error)}")
    what = error["msg"].removeprefix("Value error, ")
    return Diagnostic(where=where, what=what, seen=_shown(error))


def _guess(model: type[Settings], error: ErrorDetails) -> str:
    """Return a question with the known key that is closest to an unknown one, or an empty text."""
    *table, key = error["loc"]
    close = difflib.get_close_matches(str(key), _keys(model, table), n=1)
    return f", did you mean {close[0]}?" if close else ""


def _shown(error: ErrorDetails) -> str:
    """Return a wrong value as it may be shown. Returns an empty text for a table."""
    value = error["input"]
    if isinstance(value, Mapping):
        return ""
    key = next((key for key in reversed(error["loc"]) if isinstance(key, str)), "")
    is_address = key.endswith(("url", "urls")) or "://" in repr(value)
    return (without_secret(str(value)) if is_address else repr(value))[:SHOWN]


def _keys(model: type[Settings], table: list[int | str]) -> list[str]:
    """Return the keys that a table of the settings may have."""
    for name in table:
        if isinstance(name, int):
            continue  # The index of a table in an array of tables.
        field = model.model_fields.get(str(name))
        annotations = () if field is None else (field.annotation, *get_args(field.annotation))
        table_type = next(filter(_is_table, annotations), None)
        if table_type is None:
            return []
        model = table_type
    return list(model.model_fields)


def _is_table(annotation: object) -> TypeGuard[type[Settings]]:
    return isinstance(annotation, type) and issubclass(annotation, Settings)
