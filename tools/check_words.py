#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuse words of a private vocabulary; tools/words.toml has the lists.

Usage: check_words.py [PATH ...]      default: every tracked file
Prints one line per place, ``file:line: word: what to write instead``, and exits with 1 if any.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
WORDS = "tools/words.toml"
SKIPPED = (
    WORDS,
    "CHANGELOG.md",  # names what was before
    "LICENSE",
    "*_pb2*",
    "*/recorded/*",  # the output of other programs
    "tests/unit/interface/*",
    "control/gridstead/adapters/journal/migrations.py",  # released statements never change
    "contracts/package-lock.json",
    "requirements/*.txt",
)


@dataclass(frozen=True)
class Place:
    """A word that must not be there. ``line`` counts from 1."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}: {self.instead}"


def text_places(path: str, text: str, banned: dict[str, str]) -> Iterator[Place]:
    """Yield the banned words of any text."""
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, banned))})(?![\w-])", re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            word = match[1].lower()
            yield Place(path, number, word, banned[word])


def python_places(
    path: str, text: str, identifiers: dict[str, str], names: dict[str, str]
) -> Iterator[Place]:
    """Yield banned variables and parameters, and classes and functions without a qualified name."""
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
    """Yield every place of one file; a binary file has none."""
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
    files = [name for name in listed.stdout.split("\0") if name]
    kept = [name for name in files if not any(fnmatch.fnmatch(name, p) for p in SKIPPED)]
    return [
        name for name in kept if (CHECKOUT / name).is_file() and not (CHECKOUT / name).is_symlink()
    ]


def main(arguments: list[str]) -> int:
    """Print the places that no entry of the allow-list covers, and entries that cover none."""
    words = tomllib.loads((CHECKOUT / WORDS).read_text())
    allowed = words.get("allowed", [])
    used = set()
    refused = []
    for path in tracked(arguments):
        for place in places(path, words):
            covering = [
                number
                for number, entry in enumerate(allowed)
                if place.word in entry["words"]
                and any(fnmatch.fnmatch(path, p) for p in entry["paths"])
            ]
            used.update(covering)
            if not covering:
                refused.append(str(place))
    if not arguments:
        refused += [
            f"{WORDS}: nothing needs: {entry}"
            for number, entry in enumerate(allowed)
            if number not in used
        ]
    print("\n".join(refused), file=sys.stderr) if refused else None
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
