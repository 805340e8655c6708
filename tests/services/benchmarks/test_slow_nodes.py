# SPDX-License-Identifier: Apache-2.0
"""Tests of reporting and draining slow nodes."""

import pytest
from structlog.testing import capture_logs
from tests.fakes.benchmarks import MemoryReportFiles, report

from gridstead.domain.benchmarks.report import Drain
from gridstead.errors import SchedulerUnavailable
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck

SLOW = report(4_000, speeds={"n1": "100", "n2": "50"})


class FakeDrain:
    """Records the nodes that are drained, or refuses to drain them."""

    def __init__(self, failure=None):
        self.reasons = {}
        self.failure = failure

    def drain(self, node, *, reason):
        if self.failure:
            raise SchedulerUnavailable(self.failure)
        self.reasons[node] = reason


@pytest.fixture
def history():
    """Return the history of two quiet runs and one in which n2 is slow."""
    files = MemoryReportFiles()
    for ended_at, speed in ((1_000, "101"), (2_000, "99"), (3_000, "49")):
        files.add(report(ended_at, speeds={"n1": "100", "n2": speed}))
    return ReportHistory(files)


def test_a_slow_node_is_in_the_report_and_in_the_log_with_its_figures(history):
    with capture_logs() as log:
        checked = SlowNodeCheck(history, None).checked(SLOW)

    (slow,) = checked.slow_nodes
    assert slow.node == "n2"
    assert checked.drains == ()
    (entry,) = log
    assert (entry["event"], entry["log_level"]) == ("slow_node", "warning")
    assert (entry["node"], entry["metric"], entry["value"]) == ("n2", "compute", "50")
    assert (entry["expected"], entry["unit"], entry["runs"]) == ("100", "Gflop/s", 2)
    assert "still gets jobs" in entry["hint"]


def test_a_quiet_run_has_no_slow_nodes(history):
    quiet = report(4_000, speeds={"n1": "100", "n2": "100"})

    with capture_logs() as log:
        assert SlowNodeCheck(history, FakeDrain()).checked(quiet) == quiet

    assert log == []


def test_a_slow_node_is_drained_if_the_operator_wants_that(history):
    drain = FakeDrain()

    checked = SlowNodeCheck(history, drain).checked(SLOW)

    assert checked.drains == (Drain(node="n2"),)
    assert drain.reasons["n2"].startswith("gridstead benchmarks: n2: compute is 50 Gflop/s")


def test_a_node_that_could_not_be_drained_is_reported(history):
    with capture_logs() as log:
        checked = SlowNodeCheck(history, FakeDrain("permission denied")).checked(SLOW)

    assert checked.drains == (Drain(node="n2", failure="permission denied"),)
    errors = [entry for entry in log if entry["log_level"] == "error"]
    assert [entry["event"] for entry in errors] == ["slow_node_not_drained"]
