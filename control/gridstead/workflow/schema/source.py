# SPDX-License-Identifier: Apache-2.0
"""Where a module is: a directory of a git repository at one of its states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from gridstead.workflow.schema.base import shown_as

MAX_SOURCE = 512

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_REF = rf"{_PART}(/{_PART})*"
_SOURCE = rf"(?P<host>{_HOST})/(?P<repository>{_PART}/{_PART})(?P<directory>(/{_PART})*)(@(?P<ref>{_REF}))?"
_FORBIDDEN = r"\.\.|\.lock(/|@|$)"  # git has no such names
_COMMIT = r"[0-9a-f]{7,40}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSource:
    """Where a module is.

    Attributes:
        host: The repository's host, with a port if need be; lower case.
        repository: Its path on that host: owner and name.
        directory: The module's directory in it; empty for the top.
        ref: Tag or commit; empty for the default branch.
    """

    host: str
    repository: str
    directory: str = ""
    ref: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a text says.

        Raises:
            ValueError: It does not say where a module is.
        """
        match = re.fullmatch(_SOURCE, text)
        if not match or re.search(_FORBIDDEN, text):
            raise ValueError(
                "is no module: <host>/<owner>/<repository>[/<directory>][@<tag or commit>]"
            )
        return cls(
            host=match["host"].lower(),
            repository=match["repository"],
            directory=match["directory"].strip("/"),
            ref=match["ref"] or "",
        )

    @property
    def commit(self) -> str:
        """The commit, whole or its first digits; empty if a tag or nothing says which state is
        meant.
        """
        return self.ref if re.fullmatch(_COMMIT, self.ref) else ""

    @property
    def tag(self) -> str:
        """The tag as the repository has it: with the directory before it, where there is one."""
        return (
            "/".join(filter(None, (self.directory, self.ref)))
            if self.ref and not self.commit
            else ""
        )

    def __str__(self) -> str:
        at = f"@{self.ref}" if self.ref else ""
        return "/".join(filter(None, (self.host, self.repository, self.directory))) + at


def _source(value: str) -> str:
    ModuleSource.parse(value)
    return value


Source = Annotated[
    str,
    Field(max_length=MAX_SOURCE),
    AfterValidator(_source),
    shown_as(
        pattern=f"^{re.sub(r'[?]P<[a-z]+>', '', _SOURCE)}$", **{"not": {"pattern": _FORBIDDEN}}
    ),
]
