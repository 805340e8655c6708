# SPDX-License-Identifier: Apache-2.0
"""Tests of the files with the reports of the benchmarks."""

import json
from decimal import Decimal

import pytest

from gridstead.adapters.benchmarks import reports as reports_module
from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.domain.benchmarks.report import PastRun, Report
from gridstead.domain.benchmarks.site import Findings, Measurement, Mode, Omission
from gridstead.domain.benchmarks.suites.compute import HPL
from gridstead.domain.jobs.job import Label
from gridstead.errors import UnexpectedOutput


@pytest.fixture
def reports(tmp_path):
    return JsonReports(tmp_path)


def report(ended_at, gflops="12.50"):
    findings = Findings(
        labels=[Label(key="compute.gflops", value=gflops)],
        measurements=[Measurement(node="n1", metric=HPL, value=Decimal("0.0000012"))],
        omissions=[Omission(keys="gpu", reason="there is none")],
    )
    return Report(
        mode=Mode.LAB,
        started_at=ended_at - 60,
        ended_at=ended_at,
        nodes=("n1",),
        suite="gridstead-1-lab",
        findings=findings,
    )


def test_the_last_two_runs_are_returned_in_their_order(reports):
    assert reports.last_runs() == ()

    for ended_at in (999, 1_000, 100_000):
        reports.add(report(ended_at))

    assert [run.ended_at for run in reports.last_runs()] == [1_000, 100_000]
    assert reports.last_runs()[-1] == PastRun(
        ended_at=100_000,
        labels={
            "benchmark.suite": "gridstead-1-lab",
            "benchmark.time": "100000",
            "compute.gflops": "12.50",
        },
    )


def test_a_file_has_all_findings(reports, tmp_path):
    reports.add(report(1_000))

    (file,) = tmp_path.iterdir()
    document = json.loads(file.read_text())
    assert document["measurements"] == [
        {"node": "n1", "metric": "compute", "unit": "Gflop/s", "value": "0.0000012"}
    ]
    assert document["omissions"] == [{"keys": "gpu", "reason": "there is none"}]
    assert document["nodes"] == ["n1"]


def test_old_files_are_removed(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(reports_module, "MAX_REPORTS", 3)

    for ended_at in range(1_000, 1_005):
        reports.add(report(ended_at))

    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == [1_002, 1_003, 1_004]


def test_an_incomplete_file_of_a_crash_is_ignored(reports, tmp_path):
    reports.add(report(1_000))
    (tmp_path / "000000002000.new").write_text('{"format": "grid')

    assert [run.ended_at for run in reports.last_runs()] == [1_000]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}'])
def test_a_file_that_is_not_a_report_is_an_error_with_its_name(reports, tmp_path, text):
    (tmp_path / "000000001000.json").write_text(text)

    with pytest.raises(UnexpectedOutput, match=r"000000001000\.json"):
        reports.last_runs()
