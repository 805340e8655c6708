# SPDX-License-Identifier: Apache-2.0
"""The invariants of contracts/README.md are numbered without a gap and each names what holds it."""

import re


def test_every_test_that_an_invariant_names_exists(contracts_dir):
    named = set(re.findall(r"`(test\w+)`", (contracts_dir / "README.md").read_text()))
    written = "".join(path.read_text() for path in contracts_dir.glob("test/*.sol"))

    assert [name for name in sorted(named) if f"function {name}(" not in written] == []


def test_the_invariants_are_numbered_and_each_names_a_test(contracts_dir):
    lines = re.findall(r"^(\d+)\. (.*)$", (contracts_dir / "README.md").read_text(), re.MULTILINE)

    assert [int(number) for number, _ in lines] == list(range(1, len(lines) + 1))
    assert [text for _, text in lines if not re.search(r"`(test|assert)", text)] == []
