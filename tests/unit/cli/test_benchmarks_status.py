# SPDX-License-Identifier: Apache-2.0
"""Tests of `gridstead benchmarks status`."""

import json
import time

import pytest
from tests.fakes.benchmarks import report

from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.domain.benchmarks.report import Drain

HOUR_S = 3600


@pytest.fixture
def settings_file(tmp_path):
    """Return the settings of the benchmarks, with an empty directory of reports."""
    path = tmp_path / "benchmarks.toml"
    path.write_text(f'partition = "benchmarks"\nreport_directory = "{tmp_path}"\n')
    return path


def test_status_before_the_first_run(gridstead, settings_file):
    result = gridstead("benchmarks", "status", "--config", settings_file)

    assert result.out == "the benchmarks have not measured the site yet\n"


def test_status_has_the_age_of_the_newest_report_and_the_slow_nodes(
    gridstead, settings_file, tmp_path
):
    now = int(time.time())
    reports = JsonReports(tmp_path)
    (tmp_path / "000000000001.json").write_text("{}")  # not a report
    reports.add(report(ended_at=now - 50 * HOUR_S, drains=(Drain(node="cn9"),)))
    reports.add(report(ended_at=now - 3 * HOUR_S - 10, drains=(Drain(node="cn1"),)))

    result = gridstead("benchmarks", "status", "--config", settings_file)
    as_json = json.loads(gridstead("benchmarks", "status", "--json", "--config", settings_file).out)

    assert result.out == "the last run ended 3 h ago; cn1 was drained\n"
    assert as_json == {"age_h": 3, "slow_nodes": ["cn1 was drained"]}
