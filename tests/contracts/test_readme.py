# SPDX-License-Identifier: Apache-2.0
"""Tests that contracts/README.md names existing tests for every invariant and every fixed fault."""

import re

MIN_INVARIANTS = 25
FIXED_FAULTS = 13
# An item of a numbered list ends at the next item or at a blank line.
INVARIANT = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |^$)", re.MULTILINE | re.DOTALL)


def forge_tests(contracts_dir):
    """Return the names of all forge tests, including the invariants."""
    text = "".join(path.read_text() for path in contracts_dir.glob("test/**/*.t.sol"))
    return set(re.findall(r"function ((?:test|testFuzz|invariant)_\w+)\(", text))


def readme_text(contracts_dir):
    return (contracts_dir / "README.md").read_text()


def invariants(contracts_dir):
    return INVARIANT.findall(readme_text(contracts_dir))


def test_every_named_test_exists(contracts_dir):
    named_tests = set(
        re.findall(r"`((?:test|testFuzz|invariant)_\w+)`", readme_text(contracts_dir))
    )

    assert sorted(named_tests - forge_tests(contracts_dir)) == []


def test_every_named_file_exists(contracts_dir):
    named = set(re.findall(r"`((?:src|test|tests)/[\w/.]+)`", readme_text(contracts_dir)))

    in_contracts = {name for name in named if (contracts_dir / name).exists()}
    in_repository = {name for name in named if (contracts_dir.parent / name).exists()}
    assert sorted(named - in_contracts - in_repository) == []


def test_invariants_are_numbered_and_name_a_test(contracts_dir):
    items = invariants(contracts_dir)
    numbers = [int(number) for number, _ in items]
    texts = [text for _, text in items]

    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= MIN_INVARIANTS
    assert [text for text in texts if not re.search(r"`(test|testFuzz|invariant)_", text)] == []


def test_every_invariant_test_of_forge_is_named_by_an_invariant(contracts_dir):
    invariant_tests = {name for name in forge_tests(contracts_dir) if name.startswith("invariant_")}
    invariant_texts = "".join(text for _, text in invariants(contracts_dir))

    assert invariant_tests
    assert [name for name in sorted(invariant_tests) if f"`{name}`" not in invariant_texts] == []


def test_every_fixed_fault_names_a_test(contracts_dir):
    # A row: "| 4 fees are separate from the escrow | `test_...`, `test_...` |"
    rows = re.findall(r"^\| (\d+) [^|]+\| (.+) \|$", readme_text(contracts_dir), re.MULTILINE)

    assert [int(number) for number, _ in rows] == list(range(1, FIXED_FAULTS + 1))
    assert [number for number, tests in rows if not re.search(r"`(test|testFuzz)_", tests)] == []
