# SPDX-License-Identifier: Apache-2.0
"""The forge tests reach all of contracts/src: every line, and at least 98 % of the branches.

What they do not reach stands in contracts/exceptions.toml with its reason, as the file and the text
of the line.
"""

from dataclasses import dataclass

import pytest

MIN_BRANCHES = 0.98
# A few cases reach a line as well as a thousand do.
FEW = {"FOUNDRY_FUZZ_RUNS": "64", "FOUNDRY_INVARIANT_RUNS": "16"}


@dataclass(frozen=True)
class Coverage:
    """How often each line and branch was reached; lines as pairs of file and text."""

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
            reached = 0 if taken == "-" else int(taken)
            (lines if kind == "DA" else branches).append(
                ((file, text[int(number) - 1].strip()), reached)
            )
    return Coverage(tuple(lines), tuple(branches))


def test_every_line_is_reached(coverage):
    assert [line for line, reached in coverage.lines if not reached] == []


def test_nearly_every_branch_is_reached(coverage):
    reached = sum(1 for _, reached in coverage.branches if reached)

    assert reached / len(coverage.branches) >= MIN_BRANCHES


def test_what_is_not_reached_is_listed_with_a_reason(coverage, exceptions):
    missed = {line for line, reached in (*coverage.lines, *coverage.branches) if not reached}

    assert missed == {(entry["file"], entry["line"]) for entry in exceptions("coverage")}
