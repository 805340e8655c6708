# SPDX-License-Identifier: Apache-2.0
"""The forge tests cover contracts/src: every line, and at least 98 % of the branches.

Each branch that the tests do not cover is listed in contracts/exceptions.toml, with its file, the
text of its line and a reason.
"""

from dataclasses import dataclass

import pytest

MIN_BRANCHES = 0.98
# A larger number of runs does not increase the coverage.
FEW_FUZZ_RUNS = {"FOUNDRY_FUZZ_RUNS": "64", "FOUNDRY_INVARIANT_RUNS": "16"}


@dataclass(frozen=True)
class Coverage:
    """The number of hits of each line and of each branch. A line is a pair of file and text."""

    lines: tuple[tuple[tuple[str, str], int], ...]
    branches: tuple[tuple[tuple[str, str], int], ...]


@pytest.fixture(scope="module")
def coverage(forge, contracts_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    report = folder / "lcov.info"
    output_folders = {
        "FOUNDRY_OUT": str(folder / "out"),
        "FOUNDRY_CACHE_PATH": str(folder / "cache"),
    }
    result = forge(
        "coverage",
        "--report",
        "lcov",
        "--report-file",
        str(report),
        **FEW_FUZZ_RUNS,
        **output_folders,
    )
    assert result.returncode == 0, result.stdout

    # Rows of lcov.info: "SF:src/Credit.sol" (file), "DA:12,3" (line, hits) and "BRDA:12,0,1,-"
    # (line, block, branch, hits).
    lines, branches, file, text = [], [], "", []
    for row in report.read_text().splitlines():
        kind, _, value = row.partition(":")
        if kind == "SF":
            file, text = value, (contracts_dir / value).read_text().splitlines()
        elif kind in {"DA", "BRDA"} and file.startswith("src/"):
            number, *_, hits_text = value.split(",")
            hits = 0 if hits_text == "-" else int(hits_text)
            entries = lines if kind == "DA" else branches
            entries.append(((file, text[int(number) - 1].strip()), hits))
    return Coverage(tuple(lines), tuple(branches))


def test_every_line_is_covered(coverage):
    assert [line for line, hits in coverage.lines if not hits] == []


def test_share_of_covered_branches_is_large_enough(coverage):
    covered = [line for line, hits in coverage.branches if hits]

    assert len(covered) / len(coverage.branches) >= MIN_BRANCHES


def test_uncovered_branches_are_listed_with_a_reason(coverage, read_exceptions):
    uncovered = {line for line, hits in coverage.branches if not hits}

    assert uncovered == {(entry["file"], entry["line"]) for entry in read_exceptions("coverage")}
