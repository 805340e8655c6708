# SPDX-License-Identifier: Apache-2.0
"""Tests of reading the reports of earlier runs."""

import pytest
from structlog.testing import capture_logs
from tests.fakes.benchmarks import MemoryReportFiles, report

from gridstead.services.benchmarks.history import ReportHistory


@pytest.fixture
def files():
    files = MemoryReportFiles()
    for ended_at in (1_000, 2_000, 3_000):
        files.add(report(ended_at))
    return files


def test_a_file_that_is_not_a_report_is_skipped_with_one_warning_that_names_it(files):
    files.files["000000002500.json"] = "{}"
    history = ReportHistory(files)

    with capture_logs() as log:
        times = [run.ended_at for run in history.last_runs()]
        history.last_runs()

    assert times == [2_000, 3_000]
    (entry,) = log
    assert entry["event"] == "benchmark_report_skipped"
    assert entry["log_level"] == "warning"
    assert entry["file"] == "000000002500.json"


def test_a_file_that_was_removed_meanwhile_is_skipped(files):
    all_names = files.names()
    del files.files["000000003000.json"]
    files.names = lambda: all_names

    reports = ReportHistory(files).last_reports(1)

    assert [each.ended_at for each in reports] == [2_000]


def test_the_texts_are_those_of_the_files(files):
    texts = ReportHistory(files).last_texts(2, whole_site=False)

    assert texts == (files.files["000000002000.json"], files.files["000000003000.json"])
