# SPDX-License-Identifier: Apache-2.0
"""Reads a settings file, and reports all invalid settings at once."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gridstead.config.values import Settings
from gridstead.domain.diagnostic import Diagnostic
from gridstead.errors import ConfigError

MAX_VALUE_LENGTH = 80  # characters of an invalid value in a message
HIDDEN_VALUE = "a value that is not shown because it may contain a key"

AnySettings = TypeVar("AnySettings", bound="Settings")


def load(model: type[AnySettings], path: Path) -> AnySettings:
    """Return the settings of a file.

    Raises:
        ConfigError: If the file cannot be read or a setting is invalid. The detail lists all
            invalid settings.
    """
    try:
        return model.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error
    except ValidationError as error:
        problem_texts = [
            f"{setting_key(problem)}: {problem.text}" for problem in _diagnostics(model, error)
        ]
        raise ConfigError(
            f"invalid settings in {path}",
            detail="; ".join(problem_texts),
            hint="docs/reference/settings.md lists every key.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML", detail=str(error)) from error


def setting_diagnostics(model: type[Settings], table: Mapping[str, object]) -> list[Diagnostic]:
    """Return a diagnostic of each invalid setting of a table. Empty if all settings are valid."""
    try:
        model.model_validate(table)
    except ValidationError as error:
        return _diagnostics(model, error)
    return []


def setting_key(diagnostic: Diagnostic) -> str:
    """Return the key of the setting that a diagnostic describes, such as ``chain.rpc_url``."""
    return ".".join(diagnostic.where)


def redact_url(url: str) -> str:
    """Return the scheme, host and port of a URL. The other parts may contain an API key.

    >>> redact_url("https://rpc.grid.example:8545/v3/3f9c0ffee")
    'https://rpc.grid.example:8545/...'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return HIDDEN_VALUE
    # urlsplit() does not find a user name if the password contains a slash, which ends the host
    # part. So any "@" in the URL counts as a user name with a password.
    if not parts.scheme or not parts.hostname or "@" in url:
        return HIDDEN_VALUE
    origin = f"{parts.scheme}://{parts.hostname}"
    if port is not None:
        origin += f":{port}"
    return origin if origin == url else f"{origin}/..."


def _diagnostics(model: type[Settings], error: ValidationError) -> list[Diagnostic]:
    return [_diagnostic(model, details) for details in error.errors()]


def _diagnostic(model: type[Settings], error: ErrorDetails) -> Diagnostic:
    where = tuple(map(str, error["loc"]))
    if error["type"] == "missing":
        return Diagnostic(where=where, what="missing")
    if error["type"] == "extra_forbidden":
        return Diagnostic(where=where, what=f"unknown key{_suggestion(model, error)}")
    what = error["msg"].removeprefix("Value error, ")
    return Diagnostic(where=where, what=what, actual=_printable_value(error))


def _suggestion(model: type[Settings], error: ErrorDetails) -> str:
    """Return a question with the key that is most similar to an unknown key, or an empty text."""
    *table_path, key = error["loc"]
    similar_keys = difflib.get_close_matches(str(key), _keys(model, table_path), n=1)
    return f", did you mean {similar_keys[0]}?" if similar_keys else ""


def _printable_value(error: ErrorDetails) -> str:
    """Return an invalid value as text without secrets. Return an empty text for a table."""
    value = error["input"]
    if isinstance(value, Mapping):
        return ""
    names = [part for part in error["loc"] if isinstance(part, str)]
    key = names[-1] if names else ""
    is_url = key.endswith(("url", "urls")) or "://" in repr(value)
    text = redact_url(str(value)) if is_url else repr(value)
    return text[:MAX_VALUE_LENGTH]


def _keys(model: type[Settings], table_path: list[int | str]) -> list[str]:
    """Return the keys that the table at a path of the settings may have."""
    for name in table_path:
        if isinstance(name, int):
            continue  # The item is the index of a table in an array of tables.
        table_model = _table_model(model.model_fields.get(str(name)))
        if table_model is None:
            return []
        model = table_model
    return list(model.model_fields)


def _table_model(field: FieldInfo | None) -> type[Settings] | None:
    """Return the model of a field that contains a table, such as ``Tls`` for ``Tls | None``."""
    if field is None:
        return None
    for annotation in (field.annotation, *get_args(field.annotation)):
        if _is_table(annotation):
            return annotation
    return None


def _is_table(annotation: object) -> TypeGuard[type[Settings]]:
    return isinstance(annotation, type) and issubclass(annotation, Settings)
