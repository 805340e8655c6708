# SPDX-License-Identifier: Apache-2.0
"""Checks of contracts/README.md: its invariants are numbered, and the named tests exist."""

import re

MIN_INVARIANTS = 25
FIXED_FAULT_COUNT = 13
# An item of a numbered list ends before the next item or a blank line.
INVARIANT = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |^$)", re.MULTILINE | re.DOTALL)


def forge_tests(contracts_dir):
    """Return the names of all forge tests, including the invariants."""
    text = "".join(path.read_text() for path in contracts_dir.glob("test/**/*.t.sol"))
    return set(re.findall(r"function ((?:test|testFuzz|invariant)_\w+)\(", text))


def readme(contracts_dir):
    return (contracts_dir / "README.md").read_text()


def invariants(contracts_dir):
    return INVARIANT.findall(readme(contracts_dir))


def test_every_named_test_exists(contracts_dir):
    named = set(re.findall(r"`((?:test|testFuzz|invariant)_\w+)`", readme(contracts_dir)))

    assert sorted(named - forge_tests(contracts_dir)) == []


def test_every_named_file_exists(contracts_dir):
    for name in re.findall(r"`((?:src|test|tests)/[\w/.]+)`", readme(contracts_dir)):
        is_in_contracts = (contracts_dir / name).exists()
        is_in_repository = (contracts_dir.parent / name).exists()
        assert is_in_contracts or is_in_repository, name


def test_invariants_are_numbered_and_name_a_test(contracts_dir):
    items = invariants(contracts_dir)

    assert len(items) >= MIN_INVARIANTS
    for position, (number, text) in enumerate(items, 1):
        assert int(number) == position
        assert re.search(r"`(test|testFuzz|invariant)_", text), text


def test_every_campaign_is_named_by_an_invariant(contracts_dir):
    campaigns = [name for name in forge_tests(contracts_dir) if name.startswith("invariant_")]
    cited = "".join(text for _, text in invariants(contracts_dir))

    assert campaigns
    for name in campaigns:
        assert f"`{name}`" in cited


def test_every_fixed_fault_names_a_test(contracts_dir):
    rows = re.findall(r"^\| (\d+) [^|]+\| (.+) \|$", readme(contracts_dir), re.MULTILINE)

    assert len(rows) == FIXED_FAULT_COUNT
    for position, (number, tests) in enumerate(rows, 1):
        assert int(number) == position
        assert re.search(r"`(test|testFuzz)_", tests), number
