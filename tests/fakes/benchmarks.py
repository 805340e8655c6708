# SPDX-License-Identifier: Apache-2.0
"""Reports of the benchmarks, and a store of their files in memory."""

from decimal import Decimal

from gridstead.domain.benchmarks.metrics import Kind, Metric
from gridstead.domain.benchmarks.report import Report
from gridstead.domain.benchmarks.report_text import report_text
from gridstead.domain.benchmarks.site import (
    Findings,
    Measurement,
    Mode,
    Omission,
    PairMeasurement,
)
from gridstead.domain.jobs.job import Label
from gridstead.errors import UnexpectedOutput

COMPUTE = Metric(name="compute", unit="Gflop/s", kind=Kind.COMPUTE)
LATENCY = Metric(name="latency", unit="us", kind=Kind.NETWORK, is_time=True)


def report(ended_at, *, gflops="12.50", speeds=None):
    """Return a report.

    Args:
        ended_at: When the run ended, Unix seconds.
        gflops: The value of label compute.gflops.
        speeds: The speed of each node, by default of n1 and n2.
    """
    speeds = speeds or {"n1": "0.0000012", "n2": "6.25"}
    findings = Findings(
        labels=[Label(key="compute.gflops", value=gflops)],
        measurements=[
            Measurement(node=node, metric=COMPUTE, value=Decimal(value))
            for node, value in speeds.items()
        ],
        omissions=[Omission(keys="gpu", reason="there is none")],
        pairs=[PairMeasurement(nodes=("n1", "n2"), metric=LATENCY, value=Decimal("1.5"))],
    )
    return Report(
        mode=Mode.LAB,
        started_at=ended_at - 60,
        ended_at=ended_at,
        nodes=tuple(speeds),
        suite="gridstead-1-lab",
        findings=findings,
    )


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
