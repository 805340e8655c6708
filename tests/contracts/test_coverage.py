# SPDX-License-Identifier: Apache-2.0
"""The forge tests cover contracts/src: every line, and at least 98 % of the branches.

Lines and branches that are not covered are in contracts/exceptions.toml, as the file and the text
of the line, with the reason.
"""

from dataclasses import dataclass

import pytest

MIN_BRANCHES = 0.98
# Few fuzz cases cover a line as well as a thousand.
FEW = {"FOUNDRY_FUZZ_RUNS": "64", "FOUNDRY_INVARIANT_RUNS": "16"}


@dataclass(frozen=True)
class Coverage:
    """The hits of each line and branch; a line is a pair of file and text."""

    lines: tuple[tuple[tuple[str, str], int], ...]
    branches: tuple[tuple[tuple[str, str], int], ...]


@pytest.fixture(scope="module")
def coverage(forge, contracts_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    report = folder / "lcov.info"
    places = {"FOUNDRY_OUT": str(folder / "out"), "FOUNDRY_CACHE_PATH": str(folder / "cache")}
    done = forge("coverage", "--report", "lcov", "--report-file", str(report), **FEW, **places)
    assert done.returncode == 0, done.stdout

    lines, branches, file, text = [], [], "", []
    for row in report.read_text().splitlines():
        kind, _, value = row.partition(":")
        if kind == "SF":
            file, text = value, (contracts_dir / value).read_text().splitlines()
        elif kind in {"DA", "BRDA"} and file.startswith("src/"):
            number, *_, taken = value.split(",")
            hits = 0 if taken == "-" else int(taken)
            entries = lines if kind == "DA" else branches
            entries.append(((file, text[int(number) - 1].strip()), hits))
    return Coverage(tuple(lines), tuple(branches))


def test_every_line_is_covered(coverage):
    assert [line for line, hits in coverage.lines if not hits] == []


def test_enough_branches_are_covered(coverage):
    covered = [branch for branch, hits in coverage.branches if hits]

    assert len(covered) / len(coverage.branches) >= MIN_BRANCHES


def test_uncovered_lines_are_listed_with_a_reason(coverage, exceptions):
    missed = {line for line, hits in (*coverage.lines, *coverage.branches) if not hits}

    assert missed == {(entry["file"], entry["line"]) for entry in exceptions("coverage")}
