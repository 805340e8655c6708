# SPDX-License-Identifier: Apache-2.0
"""Types of text and numbers in a workflow's fields, and their limits."""

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
MAX_TEXT_BYTES = 100 * 1024  # Linux limits an argument or a variable to 128 KiB
MAX_COUNT = 2**31 - 1  # integers on the wire have 32 bits


_HANDLE = re.compile(r"[A-Za-z0-9_]+")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABSOLUTE = "^/"
_FORBIDDEN_ENV = {"PATH", "LD_LIBRARY_PATH"}
_SHELL_VARIABLES = {
    "_", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS",
    "BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "DIRSTACK",
    "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "OPTARG",
    "OPTIND", "PIPESTATUS", "PPID", "RANDOM", "SECONDS", "SHELLOPTS", "SRANDOM", "UID",
}  # fmt: skip


class RuleError(ValueError):
    """A mapping breaks a rule over several fields.

    Args:
        reason: What is wrong in the mapping.
        key: The field of the mapping whose line the error has, as written in a file.
    """

    def __init__(self, reason: str, key: str) -> None:
        super().__init__(reason)
        self.key = key


def _check_env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("is not a variable name: A-Z, a-z, 0-9 and _, not starting with a digit")
    if value in _FORBIDDEN_ENV:
        raise ValueError("cannot be set by a workflow")
    if value in _SHELL_VARIABLES:
        raise ValueError("belongs to the shell and cannot be set")
    return value


def _check_handle(value: str) -> str:
    if not _HANDLE.fullmatch(value):
        raise ValueError("is not a handle: A-Z, a-z, 0-9 and _")
    return value


def _check_text(value: str) -> str:
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("contains a character that cannot be passed to a program")
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise ValueError(f"is longer than {MAX_TEXT_BYTES // 1024} KiB")
    return value


def check_printable(value: str) -> str:
    """Return the text unchanged.

    Raises:
        ValueError: If the text contains a line end or another character that cannot be printed.
    """
    if not value.isprintable():
        raise ValueError("contains a character that cannot be printed")
    return value


def _check_absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return value


def schema_rule(**keywords: JsonValue) -> FieldInfo:
    """Return an annotation with JSON Schema keywords, for a field that a function validates."""
    info: FieldInfo = Field(json_schema_extra=keywords)
    return info


Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
CountOrZero = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Integer = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
Text = Annotated[str, AfterValidator(_check_text)]
Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(check_printable)]
EnvName = Annotated[
    str,
    Field(max_length=MAX_NAME),
    AfterValidator(_check_env_name),
    schema_rule(
        pattern=f"^{_ENV_NAME.pattern}$",
        **{"not": {"enum": sorted(_FORBIDDEN_ENV | _SHELL_VARIABLES)}},
    ),
]
Handle = Annotated[
    str,
    Field(max_length=MAX_NAME),
    AfterValidator(_check_handle),
    schema_rule(pattern=f"^{_HANDLE.pattern}$"),
]
AbsolutePath = Annotated[
    str,
    Field(max_length=MAX_PATH),
    AfterValidator(_check_absolute),
    AfterValidator(check_printable),
    schema_rule(pattern=_ABSOLUTE),
]


class Model(BaseModel):
    """A mapping of the language: no unknown keys, no type conversions, immutable."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        hide_input_in_errors=True,
    )


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in a field's type: the type itself, an item of a list, or an optional model.

    Returns:
        None if the type contains no model.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        model = model_in(part)
        if model is not None:
            return model
    return None
