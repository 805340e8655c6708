# SPDX-License-Identifier: Apache-2.0
"""Kinds of text and numbers that a workflow's fields hold, and their bounds."""

from __future__ import annotations

import re
from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

MAX_NAME = 128
MAX_STEPS = 256
MAX_ENV = 256
MAX_PATH = 4096
MAX_TEXT_BYTES = 100 * 1024  # Linux takes arguments and variables of less than 128 KiB
MAX_COUNT = 2**31 - 1  # the wire has 32-bit integers


_HANDLE = re.compile(r"[A-Za-z0-9_]+")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSOLUTE = "^/"
_FORBIDDEN_ENV = {"PATH", "LD_LIBRARY_PATH"}
_OF_THE_SHELL = {
    "_", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND",
    "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
    "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "OPTARG", "OPTIND", "PIPESTATUS", "PPID", "RANDOM", "SECONDS",
    "SHELLOPTS", "SRANDOM", "UID",
}  # fmt: skip


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError(
            "is not a name for a variable: letters, digits and _, not starting with a digit"
        )
    if value in _FORBIDDEN_ENV:
        raise ValueError("cannot be set by a workflow")
    if value in _OF_THE_SHELL:
        raise ValueError("belongs to the shell and cannot be set")
    return value


def _handle(value: str) -> str:
    if not _HANDLE.fullmatch(value):
        raise ValueError("is not a handle: letters, digits and _")
    return value


def _text(value: str) -> str:
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("holds a character that no program can be given")
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise ValueError(f"is longer than {MAX_TEXT_BYTES // 1024} KiB")
    return value


def printable(value: str) -> str:
    """Return the text.

    Raises:
        ValueError: It holds a line end or another character without a picture.
    """
    if not value.isprintable():
        raise ValueError("holds a character that cannot be printed")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return value


def shown_as(**keywords: JsonValue) -> FieldInfo:
    """Return what a JSON Schema says of a field whose rule is code."""
    info: FieldInfo = Field(json_schema_extra=keywords)
    return info


Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
CountOrNone = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Integer = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(printable)]
EnvName = Annotated[
    str,
    Field(max_length=MAX_NAME),
    AfterValidator(_env_name),
    shown_as(
        pattern=f"^{_ENV_NAME.pattern}$",
        **{"not": {"enum": sorted(_FORBIDDEN_ENV | _OF_THE_SHELL)}},
    ),
]
Handle = Annotated[
    str,
    Field(max_length=MAX_NAME),
    AfterValidator(_handle),
    shown_as(pattern=f"^{_HANDLE.pattern}$"),
]
AbsolutePath = Annotated[
    str,
    Field(max_length=MAX_PATH),
    AfterValidator(_absolute),
    AfterValidator(printable),
    shown_as(pattern=_ABSOLUTE),
]


class Model(BaseModel):
    """A mapping of the language: no unknown keys, no conversions, no changes."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        hide_input_in_errors=True,
    )


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that a field's type holds: itself, in a list, or beside None; None if it
    holds none.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_in(part))), None)
