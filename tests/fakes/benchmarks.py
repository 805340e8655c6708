# SPDX-License-Identifier: Apache-2.0
"""Reports of the benchmarks, and a store of their files in memory."""

from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.progress import RunState, RunStatus
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.report_text import report_text
from gridstead.domain.benchmarks.selection import check_suites
from gridstead.domain.benchmarks.site import (
    Diagnostic,
    Findings,
    Measurement,
    Mode,
    Node,
    Omission,
    PairMeasurement,
)
from gridstead.domain.jobs.job import Label
from gridstead.errors import BenchmarksNotStarted, UnexpectedOutput

COMPUTE = Metric(name="compute", unit="Gflop/s", kind=Kind.COMPUTE)
LATENCY = Metric(name="latency", unit="us", kind=Kind.NETWORK, is_time=True)


def report(ended_at, *, gflops="12.50", speeds=None, metric=COMPUTE, hardware=True, **changes):
    """Return a report.

    Args:
        ended_at: When the run ended, Unix seconds.
        gflops: The value of label compute.gflops.
        speeds: The value of each node in the metric, by default of n1 and n2.
        metric: The metric.
        hardware: Whether the report has the hardware of the nodes, which are equal.
        changes: Other attributes of the report.
    """
    speeds = speeds or {"n1": "0.0000012", "n2": "6.25"}
    findings = Findings(
        labels=[Label(key="compute.gflops", value=gflops)],
        measurements=[
            Measurement(node=node, metric=metric, value=Decimal(value))
            for node, value in speeds.items()
        ],
        omissions=[Omission(keys="gpu", reason="there is none")],
        pairs=[PairMeasurement(nodes=("n1", "n2"), metric=LATENCY, value=Decimal("1.5"))],
        diagnostics=[Diagnostic(node="n9", reason="it is not measured: its state is DOWN")],
        transport="tcp: n1 has no active RDMA port",
    )
    nodes = tuple(Node(name=name, cores=4, memory_mib=16_000, gpus=2) for name in speeds)
    new_report = Report(
        mode=Mode.LAB,
        started_at=ended_at - 60,
        ended_at=ended_at,
        nodes=tuple(speeds),
        suite="gridstead-1-lab",
        findings=findings,
        hardware=nodes if hardware else (),
    )
    return replace(new_report, **changes)


class MemoryReportFiles:
    """The files of the reports in memory. Implements the ports BenchmarkReports and ReportFiles."""

    def __init__(self):
        self.files = {}

    def add(self, added_report):
        self.files[f"{added_report.ended_at:012}.json"] = report_text(added_report)

    def names(self):
        return tuple(sorted(self.files))

    def read(self, name):
        if name not in self.files:
            raise UnexpectedOutput(name, "no such file")
        return self.files[name]


class FakeBenchmarkControl:
    """A site whose benchmarks run when a test says so. Implements port BenchmarkControl."""

    def __init__(self):
        self.selections = []
        self.status = RunStatus(state=RunState.NONE)

    def start_benchmarks(self, selection):
        check_suites(selection)
        if self.status.state in (RunState.REQUESTED, RunState.RUNNING):
            raise BenchmarksNotStarted(
                "could not request a run of the benchmarks", detail="they are running"
            )
        self.selections.append(selection)
        self.status = RunStatus(state=RunState.REQUESTED)

    def benchmark_status(self):
        return self.status


class MemoryProgress:
    """The progress of a run in memory. Implements port ProgressStore."""

    def __init__(self):
        self.texts = []

    def write(self, text):
        self.texts.append(text)

    def read(self):
        return self.texts[-1] if self.texts else None


class MemoryRequests:
    """The request for a run in memory. Implements port RunRequests."""

    def __init__(self):
        self.text = None

    def put(self, text):
        if self.text is not None:
            raise BenchmarksNotStarted(
                "could not request a run of the benchmarks", detail="an earlier request waits"
            )
        self.text = text

    def is_waiting(self):
        return self.text is not None

    def take(self):
        text, self.text = self.text, None
        return text


class MemoryLock:
    """The lock of the runs of one process. Implements port RunLock."""

    def __init__(self):
        self.holders = 0

    @contextmanager
    def held(self, *, wait):
        if self.holders and not wait:
            raise BenchmarksNotStarted("could not start the benchmarks", detail="they are running")
        self.holders += 1
        try:
            yield
        finally:
            self.holders -= 1

    def is_held(self):
        return self.holders > 0


class RecordingWatch:
    """Records the progress of steps. Implements port StepWatch."""

    def __init__(self):
        self.events = []

    def planned(self, count):
        self.events.append(("planned", count))

    def started(self, step):
        self.events.append(("started", step))

    def ended(self, step, *, has_failed):
        self.events.append(("failed" if has_failed else "ended", step))
