# SPDX-License-Identifier: Apache-2.0
"""Tests of one run of the benchmarks."""

import pytest
from structlog.testing import capture_logs
from tests.fakes.benchmarks import MemoryReportFiles
from tests.fakes.store import FakeClock

from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Failure, Mode, Node, Options
from gridstead.errors import InvalidInput, SchedulerUnavailable
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.benchmarks.runner import BenchmarkRunner
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck

NODE = Node(name="n1", cores=2, memory_mib=2500)
OTHER_NODE = Node(name="n2", cores=2, memory_mib=2500)


class FakeSite:
    """The nodes, the steps and the reports of a site on which hpcc fails."""

    def __init__(self, *nodes):
        self.nodes = nodes
        self.steps = ()
        self.reports = []
        self.outputs = {"processor-n1": ("no output of lscpu\n",)}
        self.clock = FakeClock()

    def accepting(self):
        return self.nodes

    def run(self, steps):
        self.steps = steps
        self.clock.advance(60)
        outcomes = {step.name: Failure(reason="no power") for step in steps}
        return outcomes | self.outputs

    def add(self, report):
        self.reports.append(report)

    def runner(self):
        return BenchmarkRunner(
            clock=self.clock,
            nodes=self,
            steps=self,
            reports=self,
            slow_nodes=SlowNodeCheck(ReportHistory(MemoryReportFiles()), None),
            options=Options(mode=Mode.LAB, directories={}),
            suite="gridstead-1-lab",
        )


def test_a_run_in_which_a_step_fails_writes_a_report_with_the_reason():
    site = FakeSite(NODE)

    with capture_logs() as log:
        site.runner().measure(Selection())

    (report,) = site.reports
    assert report.ended_at - report.started_at == 60
    assert {label.key for label in report.labels} == {"benchmark.suite", "benchmark.time"}
    failed = [entry["step"] for entry in log if entry["event"] == "benchmark_failed"]
    assert failed == ["compute-n1"]
    reasons = {entry["keys"]: entry["reason"] for entry in log if entry["event"] == "label_omitted"}
    assert "no power" in reasons["compute.gflops"]


def test_a_run_in_which_all_steps_fail_is_an_error_without_a_report():
    site = FakeSite(NODE)
    site.outputs = {}

    with pytest.raises(SchedulerUnavailable, match="all benchmarks failed") as caught:
        site.runner().measure(Selection())

    assert caught.value.detail == "no power"
    assert site.reports == []


def test_without_nodes_nothing_is_measured_or_reported():
    site = FakeSite()

    with pytest.raises(SchedulerUnavailable, match="no node accepts jobs"):
        site.runner().measure(Selection())

    assert site.reports == []


def test_a_run_of_the_whole_site_has_the_hardware_of_its_nodes():
    site = FakeSite(NODE, OTHER_NODE)

    site.runner().measure(Selection())

    (report,) = site.reports
    assert report.hardware == (NODE, OTHER_NODE)
    assert report.partial is None


def test_a_run_of_a_part_of_the_site_runs_only_its_steps_and_is_marked():
    site = FakeSite(NODE, OTHER_NODE)
    selection = Selection(nodes=("n1",), suites=("processor",))

    site.runner().measure(selection)

    assert [step.name for step in site.steps] == ["processor-n1"]
    (report,) = site.reports
    assert report.nodes == ("n1",)
    assert report.partial == selection


def test_a_selected_node_that_does_not_accept_jobs_is_an_error():
    site = FakeSite(NODE)

    with pytest.raises(InvalidInput, match="n2"):
        site.runner().measure(Selection(nodes=("n2",)))

    assert site.steps == ()


def test_a_selection_without_steps_is_an_error():
    site = FakeSite(NODE)

    with pytest.raises(InvalidInput, match="measure nothing"):
        site.runner().measure(Selection(suites=("network",)))

    assert site.reports == []
