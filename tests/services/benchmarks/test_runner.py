# SPDX-License-Identifier: Apache-2.0
"""Tests of one run of the benchmarks."""

import pytest
from structlog.testing import capture_logs
from tests.fakes.store import FakeClock

from gridstead.domain.benchmarks.site import Failure, Mode, Node, Options
from gridstead.errors import SchedulerUnavailable
from gridstead.services.benchmarks.runner import BenchmarkRunner

NODE = Node(name="n1", cores=2, memory_mib=2500)


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
            options=Options(mode=Mode.LAB, directories={}),
            suite="gridstead-1-lab",
        )


def test_a_run_in_which_a_step_fails_writes_a_report_with_the_reason():
    site = FakeSite(NODE)

    with capture_logs() as log:
        site.runner().measure()

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
        site.runner().measure()

    assert caught.value.detail == "no power"
    assert site.reports == []


def test_without_nodes_nothing_is_measured_or_reported():
    site = FakeSite()

    with pytest.raises(SchedulerUnavailable, match="no node accepts jobs"):
        site.runner().measure()

    assert site.reports == []
