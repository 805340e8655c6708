# SPDX-License-Identifier: Apache-2.0
"""A tree describes the files of a repository. A publisher publishes a tree as a revision.

A tree is a dictionary from names to nodes. A node is bytes (a file), a dictionary (a directory) or
an instance of one of the classes below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Symlink:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Chunks:
    """A file that is stored in several pieces."""

    content: bytes


@dataclass(frozen=True)
class Plain:
    """A file that is stored without compression."""

    content: bytes


@dataclass(frozen=True)
class Mode:
    """A file or directory with permissions and an owner."""

    node: Any
    mode: int
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class HardLink:
    """One of the ``count`` names of a file. All names with the same ``group`` are the same file."""

    content: bytes
    group: int
    count: int


@dataclass(frozen=True)
class WithAttributes:
    """A file with extended attributes."""

    content: bytes
    attributes: bytes = b"\x01\x01\x09\x03user.licensefree"


@dataclass(frozen=True)
class Nested:
    """A directory with its own catalog."""

    tree: Mapping[str, Any]


TREE: Mapping[str, Any] = {
    "README": b"what this is\n",
    "empty": b"",
    "bin": {
        "tool": b"\x7fELF" * 400,
        "alias": Symlink("tool"),
        "marked": WithAttributes(b"marked\n"),
    },
    "data": {
        "large": Chunks(bytes(range(256)) * 200),
        "one": HardLink(b"same\n", 1, 2),
        "two": HardLink(b"same\n", 1, 2),
    },
    "v1": Nested(
        {
            "lib": {"libm.so": b"m" * 5000},
            "deep": Nested({"er": b"deeper\n", "est": Nested({"x": b"deepest\n"})}),
        }
    ),
}
