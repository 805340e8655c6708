# SPDX-License-Identifier: Apache-2.0
"""The invariants of contracts/README.md are numbered without a gap and each names what holds it."""

import re

LEAST = 25
MENDED = 13


def written(contracts_dir):
    """Return the names of all forge tests, those of the campaigns included."""
    text = "".join(path.read_text() for path in contracts_dir.glob("test/**/*.t.sol"))
    return set(re.findall(r"function ((?:test|testFuzz|invariant)_\w+)\(", text))


def invariants(contracts_dir):
    return re.findall(r"^(\d+)\. (.*)$", (contracts_dir / "README.md").read_text(), re.MULTILINE)


def test_every_test_that_the_page_names_exists(contracts_dir):
    named = set(
        re.findall(
            r"`((?:test|testFuzz|invariant)_\w+)`", (contracts_dir / "README.md").read_text()
        )
    )

    assert sorted(named - written(contracts_dir)) == []


def test_every_file_that_the_page_names_exists(contracts_dir):
    named = set(
        re.findall(r"`((?:src|test|tests)/[\w/.]+)`", (contracts_dir / "README.md").read_text())
    )
    places = (contracts_dir, contracts_dir.parent)

    assert [
        name for name in sorted(named) if not any((place / name).exists() for place in places)
    ] == []


def test_the_invariants_are_numbered_and_each_names_a_test(contracts_dir):
    numbers = [int(number) for number, _ in invariants(contracts_dir)]

    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= LEAST
    assert [
        text
        for _, text in invariants(contracts_dir)
        if not re.search(r"`(test|testFuzz|invariant)_", text)
    ] == []


def test_every_campaign_holds_an_invariant(contracts_dir):
    campaigns = {name for name in written(contracts_dir) if name.startswith("invariant_")}
    cited = "".join(text for _, text in invariants(contracts_dir))

    assert campaigns
    assert [name for name in sorted(campaigns) if f"`{name}`" not in cited] == []


def test_every_mended_point_names_a_test(contracts_dir):
    rows = re.findall(
        r"^\| (\d+) [^|]+\| (.+) \|$", (contracts_dir / "README.md").read_text(), re.MULTILINE
    )

    assert [int(number) for number, _ in rows] == list(range(1, MENDED + 1))
    assert [number for number, tests in rows if not re.search(r"`(test|testFuzz)_", tests)] == []
