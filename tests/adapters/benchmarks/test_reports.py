# SPDX-License-Identifier: Apache-2.0
"""Tests of the files with the reports of the benchmarks."""

import pytest
from tests.fakes.benchmarks import report

from gridstead.adapters.benchmarks import reports as reports_module
from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.domain.benchmarks.report_text import report_text
from gridstead.errors import UnexpectedOutput


@pytest.fixture
def reports(tmp_path):
    return JsonReports(tmp_path)


def test_a_file_has_the_text_of_the_report(reports):
    reports.add(report(1_000))

    assert reports.names() == ("000000001000.json",)
    assert reports.read("000000001000.json") == report_text(report(1_000))


def test_old_files_are_removed(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(reports_module, "MAX_REPORTS", 3)

    for ended_at in range(1_000, 1_005):
        reports.add(report(ended_at))

    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == [1_002, 1_003, 1_004]


def test_other_files_and_an_incomplete_file_of_a_crash_are_ignored(reports, tmp_path):
    reports.add(report(1_000))
    (tmp_path / "000000002000.new").write_text('{"format": "grid')
    (tmp_path / "progress.json").write_text("{}")

    assert reports.names() == ("000000001000.json",)


def test_a_file_that_is_not_text_is_an_error_with_its_path(reports, tmp_path):
    (tmp_path / "000000001000.json").write_bytes(b"\xff")

    with pytest.raises(UnexpectedOutput, match=r"000000001000\.json"):
        reports.read("000000001000.json")


def test_a_file_that_was_removed_is_an_error_with_its_path(reports):
    with pytest.raises(UnexpectedOutput, match=r"000000001000\.json"):
        reports.read("000000001000.json")
