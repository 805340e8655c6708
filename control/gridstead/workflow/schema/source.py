# SPDX-License-Identifier: Apache-2.0
"""The source of a module: a directory of a git repository at a tag or commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from gridstead.workflow.schema.base import schema_rule

MAX_SOURCE = 512

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_REF = rf"{_PART}(/{_PART})*"
# git.example:8443/owner/repository/directory@v1.0
_SOURCE = (
    rf"(?P<host>{_HOST})/(?P<repository>{_PART}/{_PART})"
    rf"(?P<directory>(/{_PART})*)(@(?P<ref>{_REF}))?"
)
_FORBIDDEN = r"\.\.|\.lock(/|@|$)"  # git does not allow such names
_COMMIT = r"[0-9a-f]{7,40}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSource:
    """The source of a module.

    Attributes:
        host: The host of the repository in lower case, with an optional port.
        repository: The path of the repository on the host: owner and name.
        directory: The directory of the module in the repository. Empty for the top level.
        ref: The tag or commit. Empty for the default branch.
    """

    host: str
    repository: str
    directory: str = ""
    ref: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the source that a text describes.

        Raises:
            ValueError: If the text is not the source of a module.
        """
        match = re.fullmatch(_SOURCE, text)
        if not match or re.search(_FORBIDDEN, text):
            raise ValueError(
                "is not a module: <host>/<owner>/<repository>[/<directory>][@<tag or commit>]"
            )
        return cls(
            host=match["host"].lower(),
            repository=match["repository"],
            directory=match["directory"].strip("/"),
            ref=match["ref"] or "",
        )

    @property
    def commit(self) -> str:
        """Return the commit or its first digits. Empty if the source has a tag or no reference."""
        return self.ref if re.fullmatch(_COMMIT, self.ref) else ""

    @property
    def tag(self) -> str:
        """Return the tag in the repository: ``<directory>/<tag>`` if there is a directory."""
        if not self.ref or self.commit:
            return ""
        return "/".join(filter(None, (self.directory, self.ref)))

    def __str__(self) -> str:
        reference = f"@{self.ref}" if self.ref else ""
        return "/".join(filter(None, (self.host, self.repository, self.directory))) + reference


def _check_source(value: str) -> str:
    ModuleSource.parse(value)
    return value


Source = Annotated[
    str,
    Field(max_length=MAX_SOURCE),
    AfterValidator(_check_source),
    # Named groups such as (?P<host>...) exist only in Python, so JSON Schema gets plain groups.
    schema_rule(
        pattern=f"^{re.sub(r'[?]P<[a-z]+>', '', _SOURCE)}$", **{"not": {"pattern": _FORBIDDEN}}
    ),
]
