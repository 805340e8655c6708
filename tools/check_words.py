#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Report words that readers from outside the project do not know. File tools/words.toml lists them.

Usage: check_words.py [PATH ...]      default: every tracked file
Prints one line for each word, ``file:line: word: what to write instead``. The exit code is 1 if the
program prints a line.
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
WORD_LISTS = "tools/words.toml"
SKIPPED = (
    WORD_LISTS,
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
class Diagnostic:
    """A banned word in a file. ``line`` starts at 1."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}: {self.instead}"


def text_diagnostics(path: str, text: str, banned: dict[str, str]) -> Iterator[Diagnostic]:
    """Yield the banned words in a text."""
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, banned))})(?![\w-])", re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            word = match[1].lower()
            yield Diagnostic(path, number, word, banned[word])


def python_diagnostics(
    path: str, text: str, identifiers: dict[str, str], names: dict[str, str]
) -> Iterator[Diagnostic]:
    """Yield the definitions of variables, parameters, classes and functions with a banned name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name, banned_words = node.id, identifiers
        elif isinstance(node, ast.arg):
            name, banned_words = node.arg, identifiers
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name, banned_words = node.name, names | identifiers
        else:
            continue
        if name in banned_words:
            yield Diagnostic(path, node.lineno, name, banned_words[name])


def diagnostics(path: str, words: dict[str, dict[str, str]]) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a file. A binary file has none."""
    try:
        text = (CHECKOUT / path).read_text()
    except UnicodeDecodeError:
        return
    yield from text_diagnostics(path, text, words["everywhere"])
    if path.endswith(".py"):
        yield from python_diagnostics(path, text, words["identifiers"], words["names"])


def files_to_check(arguments: list[str]) -> list[str]:
    """Return the tracked files in the paths, without skipped files and symbolic links."""
    command = ["git", "ls-files", "-z", "--", *arguments]
    result = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    names = []
    for name in filter(None, result.stdout.split("\0")):
        is_skipped = matches_any(name, SKIPPED)
        if not is_skipped and is_regular(CHECKOUT / name):
            names.append(name)
    return names


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of the fnmatch patterns."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def is_regular(path: Path) -> bool:
    """Return whether a path is a regular file. A symbolic link is not."""
    return path.is_file() and not path.is_symlink()


def allows(entry: dict[str, Any], diagnostic: Diagnostic) -> bool:
    """Return whether an entry of the allow-list allows the diagnostic's word in its file."""
    return diagnostic.word in entry["words"] and matches_any(diagnostic.path, entry["paths"])


def unused_entries(allowed: list[dict[str, Any]], used_indexes: set[int]) -> Iterator[str]:
    """Yield a line for each entry of the allow-list whose index is not in ``used_indexes``."""
    for number, entry in enumerate(allowed):
        if number not in used_indexes:
            yield f"{WORD_LISTS}: unused entry: {entry}"


def main(arguments: list[str]) -> int:
    """Print banned words that the allow-list does not allow, and unused entries of the list.

    Unused entries are reported only if the program checks all files.
    """
    words = tomllib.loads((CHECKOUT / WORD_LISTS).read_text())
    allowed_words = words.get("allowed", [])
    used_indexes = set()
    reports = []
    for path in files_to_check(arguments):
        for diagnostic in diagnostics(path, words):
            indexes = [
                index for index, entry in enumerate(allowed_words) if allows(entry, diagnostic)
            ]
            used_indexes.update(indexes)
            if not indexes:
                reports.append(str(diagnostic))
    if not arguments:
        reports += unused_entries(allowed_words, used_indexes)
    for line in reports:
        print(line, file=sys.stderr)
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
