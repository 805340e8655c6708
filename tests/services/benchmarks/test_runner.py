# SPDX-License-Identifier: Apache-2.0
"""Tests of one run of the benchmarks."""

import pytest
from structlog.testing import capture_logs
from tests.fakes.benchmarks import MemoryReportFiles
from tests.fakes.store import FakeClock

from gridstead.domain.benchmarks.selection import Selection
from gridstead.domain.benchmarks.site import Cause, Failure, Mode, Node, Options
from gridstead.errors import InvalidInput, SchedulerUnavailable
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.benchmarks.runner import POLL_S, BenchmarkRunner
from gridstead.services.benchmarks.slow_nodes import SlowNodeCheck

NODE = Node(name="n1", cores=2, memory_mib=2500)
OTHER_NODE = Node(name="n2", cores=2, memory_mib=2500)
DRAINED_NODE = Node(
    name="n3", cores=2, memory_mib=2500, unavailable="its state is IDLE+DRAIN (bad disk)"
)
PREEMPTED = Failure(reason="paid jobs needed the nodes", cause=Cause.PREEMPTED)
QUIET_STEPS = ["network-pingpong-n1-n2", "network-all-to-all"]


class FakeSite:
    """The nodes, the steps and the reports of a site on which hpcc fails.

    Attributes:
        runs: The names of the steps of each call.
        outcomes: The outcomes of steps, for each call. Other steps fail.
        busy_nodes: The busy nodes, for each call. Then no node is busy.
    """

    def __init__(self, *nodes):
        self.nodes = nodes
        self.runs = []
        self.reports = []
        self.outcomes = [{"processor-n1": ("no output of lscpu\n",)}]
        self.busy_nodes = []
        self.clock = FakeClock()

    def listed(self):
        return self.nodes

    def busy(self):
        return self.busy_nodes.pop(0) if self.busy_nodes else frozenset()

    def run(self, steps):
        names = [step.name for step in steps]
        self.runs.append(names)
        self.clock.advance(60)
        outcomes = self.outcomes.pop(0) if self.outcomes else {}
        return dict.fromkeys(names, Failure(reason="no power")) | outcomes

    def add(self, report):
        self.reports.append(report)

    def runner(self, **options):
        return BenchmarkRunner(
            clock=self.clock,
            nodes=self,
            steps=self,
            reports=self,
            slow_nodes=SlowNodeCheck(ReportHistory(MemoryReportFiles()), None),
            options=Options(mode=Mode.LAB, directories={}, **options),
            suite="gridstead-1-lab",
            sleep=self.clock.advance,
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
    site.outcomes = []

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

    assert site.runs == [["processor-n1"]]
    (report,) = site.reports
    assert report.nodes == ("n1",)
    assert report.partial == selection


def test_a_run_in_a_reservation_is_not_one_of_the_whole_site():
    site = FakeSite(NODE)

    site.runner(in_reservation=True).measure(Selection())

    (report,) = site.reports
    assert report.partial == Selection(nodes=("n1",))


def test_a_selected_node_that_does_not_accept_jobs_is_an_error():
    site = FakeSite(NODE)

    with pytest.raises(InvalidInput, match="n2"):
        site.runner().measure(Selection(nodes=("n2",)))

    assert site.runs == []


def test_a_selection_without_steps_is_an_error():
    site = FakeSite(NODE)

    with pytest.raises(InvalidInput, match="measure nothing"):
        site.runner().measure(Selection(suites=("network",)))

    assert site.reports == []


def test_nodes_without_jobs_are_reported_and_not_measured():
    site = FakeSite(NODE, DRAINED_NODE)

    with capture_logs() as log:
        site.runner().measure(Selection())

    (report,) = site.reports
    assert report.nodes == ("n1",)
    assert site.runs == [["processor-n1", "compute-n1"]]
    diagnosed = [entry for entry in log if entry["event"] == "node_diagnosed"]
    assert [entry["node"] for entry in diagnosed] == ["n3"]
    assert "bad disk" in diagnosed[0]["reason"]


def test_an_error_about_missing_nodes_has_their_states():
    with pytest.raises(SchedulerUnavailable) as caught:
        FakeSite(DRAINED_NODE).runner().measure(Selection())

    assert caught.value.detail == "n3: its state is IDLE+DRAIN (bad disk)"


def test_steps_between_nodes_wait_until_no_node_is_busy():
    site = FakeSite(NODE, OTHER_NODE)
    site.busy_nodes = [frozenset({"n2"}), frozenset({"other"})]
    started_at = site.clock.now()

    site.runner().measure(Selection())

    assert site.runs[1] == QUIET_STEPS
    assert site.clock.now() - started_at == 60 + 2 * POLL_S + 60


def test_steps_between_nodes_are_left_out_if_the_site_stays_busy():
    site = FakeSite(NODE, OTHER_NODE)
    site.busy_nodes = [frozenset({"n2"})] * 100

    site.runner(quiet_limit_s=30).measure(Selection())

    (report,) = site.reports
    assert len(site.runs) == 1
    reasons = {omission.keys: omission.reason for omission in report.findings.omissions}
    assert "jobs ran on 1 nodes, also after 30 s" in reasons["network.p2p.*"]


def test_a_preempted_step_is_repeated_once():
    site = FakeSite(NODE, OTHER_NODE)
    site.outcomes = [
        {"processor-n1": ("no output of lscpu\n",), "compute-n1": PREEMPTED},
        {"network-all-to-all": PREEMPTED},
        {"network-all-to-all": PREEMPTED},
    ]

    site.runner().measure(Selection())

    (report,) = site.reports
    assert site.runs[2:] == [["compute-n1", "network-all-to-all"]]
    reasons = {omission.keys: omission.reason for omission in report.findings.omissions}
    assert "n1: cannot use the output of step compute-n1: no power" in reasons["compute.gflops"]
    assert "paid jobs needed the nodes" in reasons["network.all-to-all.latency.us"]


def test_a_preempted_step_is_left_out_if_its_nodes_are_busy():
    site = FakeSite(NODE)
    site.outcomes[0]["compute-n1"] = PREEMPTED
    site.busy_nodes = [frozenset({"n1"})]

    site.runner().measure(Selection())

    (report,) = site.reports
    assert len(site.runs) == 1
    reasons = {omission.keys: omission.reason for omission in report.findings.omissions}
    assert "paid jobs needed the nodes" in reasons["compute.gflops"]
