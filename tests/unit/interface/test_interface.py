# SPDX-License-Identifier: Apache-2.0
"""Tests that the public interface changes only together with an entry in CHANGELOG.md.

``released.txt`` contains the interface of the last release. A newer section of the changelog must
contain each name that was added or removed since then, in backticks, and say what users must do.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.modules import load

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]
RELEASED_VERSION = "0.1.0"  # The release that released.txt describes.

collect = load(HERE / "collect.py")


@pytest.fixture(scope="module")
def released():
    """Return the lines of the last release."""
    return set((HERE / "released.txt").read_text().splitlines())


@pytest.fixture(scope="module")
def current():
    """Return the lines of this checkout."""
    return collect.interface()


def newer_sections(changelog: str) -> str:
    """Return the part of the changelog above the section of the last release."""
    head, _, _ = changelog.partition(f"\n## {RELEASED_VERSION}")
    return head


def names_in_backticks(text: str) -> set[str]:
    names = set()
    for quoted_text in re.findall(r"`([^`]+)`", text):
        names.update(re.findall(r"[\w.@/-]+", quoted_text))
    return names


def name_of(line: str) -> str:
    """Return the part of a line that the changelog must contain."""
    kind, *words = line.split(" ")
    # For example, "grpc gridstead.Logger.Read(Request) Answer" has the name "Read".
    if kind == "grpc":
        return words[0].partition("(")[0].rpartition(".")[2]
    if kind in {"graphql", "workflow", "setting", "table"}:
        return words[0].rstrip(":").rpartition(".")[2]
    if kind == "abi":
        return words[-1].partition("(")[0]
    if kind == "error":
        return words[0]
    return words[-1]


def test_every_kind_of_name_is_collected(released, current):
    kinds = {line.split(" ")[0] for line in released}

    assert {line.split(" ")[0] for line in current} == kinds


def test_changed_name_is_in_the_changelog(released, current):
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    explained_names = names_in_backticks(newer_sections(changelog))

    changed_lines = sorted(released ^ current)
    unexplained_lines = [line for line in changed_lines if name_of(line) not in explained_names]
    assert unexplained_lines == []


def wire_fields(lines):
    """Return the message, number and type of each gRPC field."""
    fields = set()
    for line in lines:
        match = re.fullmatch(r"grpc (\S+)\.\w+ = (\d+) type (\d+)", line)
        if match:
            fields.add(match.groups())
    return fields


def methods(lines):
    """Return the names of the gRPC methods."""
    names = set()
    for line in lines:
        match = re.match(r"grpc (\S+?)\(", line)
        if match:
            names.add(match[1])
    return names


def test_wire_format_stays_compatible(released, current):
    """A peer of the last release identifies fields by number and type, and methods by name."""
    assert wire_fields(released) - wire_fields(current) == set()
    assert methods(released) - methods(current) == set()


@pytest.mark.parametrize("kind", ["abi", "graphql", "workflow"])
def test_public_format_loses_no_name(released, current, kind):
    lost_lines = {line for line in released - current if line.startswith(f"{kind} ")}

    assert lost_lines == set()
