# SPDX-License-Identifier: Apache-2.0
"""What outsiders rely on changes only together with a line in CHANGELOG.md.

``released.txt`` holds the interface of the last release. A name that is new or gone since then must
be in backticks in a newer section of the changelog, next to what users have to do.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.modules import load

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]
RELEASED_VERSION = ""  # the release of released.txt; before the first one there is none

collect = load(HERE / "collect.py")


@pytest.fixture(scope="module")
def released():
    return set((HERE / "released.txt").read_text().splitlines())


@pytest.fixture(scope="module")
def present():
    return collect.interface()


def newer_sections(changelog: str) -> str:
    """Return the changelog down to the section of the release."""
    if not RELEASED_VERSION:
        return changelog
    head, _, _ = changelog.partition(f"\n## {RELEASED_VERSION}")
    return head


def names_in_backticks(text: str) -> set[str]:
    quoted = re.findall(r"`([^`]+)`", text)
    return {word for words in quoted for word in re.findall(r"[\w.@/-]+", words)}


def name_of(line: str) -> str:
    """Return the word of a line that a changelog entry must have."""
    kind, *words = line.split(" ")
    if kind == "grpc":
        return words[0].partition("(")[0].rpartition(".")[2]
    if kind in {"graphql", "workflow", "setting", "table"}:
        return words[0].rstrip(":").rpartition(".")[2]
    if kind == "error":
        return words[0]
    return words[-1]


def test_every_kind_of_name_is_collected(released, present):
    kinds = {line.split(" ")[0] for line in released}

    assert {line.split(" ")[0] for line in present} == kinds


def test_a_name_changes_only_with_a_changelog_line(released, present):
    known = names_in_backticks(newer_sections((CHECKOUT / "CHANGELOG.md").read_text()))

    unexplained = [line for line in sorted(released ^ present) if name_of(line) not in known]

    assert unexplained == []


def test_messages_keep_their_bytes(released, present):
    """A peer of the release before reads numbers and types, not names."""

    def wire(lines):
        fields = [re.fullmatch(r"grpc (\S+)\.\w+ = (\d+) type (\d+)", line) for line in lines]
        return {field.groups() for field in fields if field}

    def methods(lines):
        return {
            line.split(" ")[1].partition("(")[0] for line in lines if re.match(r"grpc \S+\(", line)
        }

    assert wire(released) - wire(present) == set()
    assert methods(released) - methods(present) == set()


@pytest.mark.parametrize("kind", ["abi", "graphql", "workflow"])
def test_public_formats_lose_nothing(released, present, kind):
    lost = {line for line in released - present if line.startswith(f"{kind} ")}

    assert lost == set()
