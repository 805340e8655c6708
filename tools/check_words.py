#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Report words of a private vocabulary; tools/words.toml has the lists.

Usage: check_words.py [PATH ...]      default: every tracked file
Prints one line for each place, ``file:line: word: what to write instead``. The exit code is 1 if
there is a place.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
WORDS = "tools/words.toml"
SKIPPED = (
    WORDS,
    "CHANGELOG.md",  # contains former names
    "LICENSE",
    "*_pb2*",
    "*/recorded/*",  # the output of other programs
    "tests/unit/interface/*",
    "control/gridstead/adapters/store/migrations.py",  # released statements never change
    "contracts/package-lock.json",
    "requirements/*.txt",
)


@dataclass(frozen=True)
class Place:
    """A place with a banned word. ``line`` counts from 1."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}: {self.instead}"


def text_places(path: str, text: str, banned: dict[str, str]) -> Iterator[Place]:
    """Yield the places of banned words in a text."""
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, banned))})(?![\w-])", re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            word = match[1].lower()
            yield Place(path, number, word, banned[word])


def python_places(
    path: str, text: str, identifiers: dict[str, str], names: dict[str, str]
) -> Iterator[Place]:
    """Yield the places that bind a banned variable, parameter, class or function name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound, banned = node.id, identifiers
        elif isinstance(node, ast.arg):
            bound, banned = node.arg, identifiers
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound, banned = node.name, names | identifiers
        else:
            continue
        if bound in banned:
            yield Place(path, node.lineno, bound, banned[bound])


def places(path: str, words: dict[str, dict[str, str]]) -> Iterator[Place]:
    """Yield every place of one file; nothing for a binary file."""
    try:
        text = (CHECKOUT / path).read_text()
    except UnicodeDecodeError:
        return
    yield from text_places(path, text, words["everywhere"])
    if path.endswith(".py"):
        yield from python_places(path, text, words["identifiers"], words["names"])


def tracked(arguments: list[str]) -> list[str]:
    """Return the tracked text files below the paths, without those that are skipped."""
    command = ["git", "ls-files", "-z", "--", *arguments]
    listed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    names = []
    for name in filter(None, listed.stdout.split("\0")):
        is_skipped = matches(name, SKIPPED)
        if not is_skipped and is_regular(CHECKOUT / name):
            names.append(name)
    return names


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of the patterns of fnmatch."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def is_regular(path: Path) -> bool:
    """Return whether a path is a regular file and not a symbolic link to one."""
    return path.is_file() and not path.is_symlink()


def covers(entry: dict[str, Any], place: Place) -> bool:
    """Return whether an entry of the allow-list allows the word at this place."""
    return place.word in entry["words"] and matches(place.path, entry["paths"])


def unused_entries(allowed: list[dict[str, Any]], used: set[int]) -> Iterator[str]:
    """Yield a line for each entry of the allow-list whose index is not in ``used``."""
    for number, entry in enumerate(allowed):
        if number not in used:
            yield f"{WORDS}: unused entry: {entry}"


def main(arguments: list[str]) -> int:
    """Print the places that no entry of the allow-list covers, and the entries that cover no place.

    Unused entries are reported only if all files are checked.
    """
    words = tomllib.loads((CHECKOUT / WORDS).read_text())
    allowed = words.get("allowed", [])
    used = set()
    refused = []
    for path in tracked(arguments):
        for place in places(path, words):
            covering = [n for n, entry in enumerate(allowed) if covers(entry, place)]
            used.update(covering)
            if not covering:
                refused.append(str(place))
    if not arguments:
        refused += unused_entries(allowed, used)
    for line in refused:
        print(line, file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
