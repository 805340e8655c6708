# SPDX-License-Identifier: Apache-2.0
"""Contract tests of ports BenchmarkHistory, BenchmarkRuns and BenchmarkControl.

They run on files in memory, on files on disk, and on an agent that uses files on disk.
"""

from contextlib import ExitStack

import pytest
from tests.fakes.benchmarks import (
    MemoryLock,
    MemoryProgress,
    MemoryReportFiles,
    MemoryRequests,
    report,
)
from tests.fakes.certificates import Authority

from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.adapters.benchmarks.runs import ProgressFile, RequestFile, RunLockFile
from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.domain.benchmarks.progress import Progress, RunState, RunStatus, progress_text
from gridstead.domain.benchmarks.report import PastRun
from gridstead.domain.benchmarks.selection import Selection, selection_text
from gridstead.errors import BenchmarksNotStarted, InvalidInput
from gridstead.rpc.slurm import AgentServer
from gridstead.rpc.tls import TlsFiles
from gridstead.services.benchmarks.control import RunControl
from gridstead.services.benchmarks.history import ReportHistory


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


class MeasuredFiles:
    """What a run writes, and what the agent reads. By default all of it is in memory."""

    def __init__(self):
        self.files = MemoryReportFiles()
        self.lock = MemoryLock()
        self.progress = MemoryProgress()
        self.requests = MemoryRequests()

    def connect(self):
        """Use the site directly."""
        self.history = ReportHistory(self.files)
        self.control = RunControl(self.lock, self.progress, self.requests)

    def connect_through_agent(self, authority, stack):
        """Use the site through an agent until the stack is closed."""
        self.connect()
        server = start_agent(authority, self)
        stack.callback(server.stop)
        self.history = self.control = AgentClient(stack.enter_context(connect(authority, server)))


@pytest.fixture(params=["memory", "disk", "agent"])
def site(request, authority, tmp_path):
    """Yield a site without reports and runs."""
    site = MeasuredFiles()
    if request.param != "memory":
        site.files = JsonReports(tmp_path)
        site.lock = RunLockFile(tmp_path)
        site.progress = ProgressFile(tmp_path)
        site.requests = RequestFile(tmp_path)
    with ExitStack() as stack:
        if request.param == "agent":
            site.connect_through_agent(authority, stack)
        else:
            site.connect()
        yield site


def start_agent(authority, site):
    """Return a started agent, which does not answer about Slurm."""
    certificate = authority.issue("agent")
    server = AgentServer(
        "localhost:0",
        TlsFiles(
            certificate=certificate.certificate,
            key=certificate.key,
            client_ca=authority.certificate,
        ),
        scheduler=None,
        list_records=None,
        reports=None,
        report_texts=site.history.last_texts,
        benchmarks=site.control,
        allowed_client="supervisor",
    )
    server.start()
    return server


def connect(authority, server):
    """Return a channel of the supervisor."""
    certificate = authority.issue("supervisor")
    return open_channel(
        GrpcPeer(
            address=f"localhost:{server.port}",
            ca=authority.certificate,
            certificate=certificate.certificate,
            key=certificate.key,
        )
    )


def test_without_reports_there_are_no_runs(site):
    assert site.history.last_reports(100) == ()
    assert site.history.last_runs() == ()


def test_the_newest_reports_are_returned_whole_and_in_their_order(site):
    reports = [report(ended_at) for ended_at in (999, 1_000, 100_000)]
    for each in reports:
        site.files.add(each)

    assert site.history.last_reports(2) == tuple(reports[1:])
    assert site.history.last_reports(100) == tuple(reports)


def test_the_last_two_runs_have_the_labels_of_their_reports(site):
    for ended_at in (999, 1_000, 100_000):
        site.files.add(report(ended_at))

    assert [run.ended_at for run in site.history.last_runs()] == [1_000, 100_000]
    assert site.history.last_runs()[-1] == PastRun(
        ended_at=100_000,
        labels={
            "benchmark.suite": "gridstead-1-lab",
            "benchmark.time": "100000",
            "compute.gflops": "12.50",
        },
    )


def test_a_run_of_a_part_of_the_site_is_not_one_of_the_last_runs(site):
    for ended_at in (1_000, 3_000):
        site.files.add(report(ended_at))
    for ended_at in (2_000, 4_000):
        site.files.add(report(ended_at, partial=Selection(suites=("compute",))))

    assert [run.ended_at for run in site.history.last_runs()] == [1_000, 3_000]
    assert [each.ended_at for each in site.history.last_reports(2)] == [3_000, 4_000]


def test_a_requested_run_waits_until_a_process_takes_the_request(site):
    selection = Selection(nodes=("n1",), suites=("compute", "network"))
    assert site.control.benchmark_status() == RunStatus(state=RunState.NONE)

    site.control.start_benchmarks(selection)

    assert site.control.benchmark_status() == RunStatus(state=RunState.REQUESTED)
    assert site.requests.take() == selection_text(selection)
    assert site.requests.take() is None
    assert site.control.benchmark_status() == RunStatus(state=RunState.NONE)


def test_a_second_request_is_refused(site):
    site.control.start_benchmarks(Selection())

    with pytest.raises(BenchmarksNotStarted) as caught:
        site.control.start_benchmarks(Selection(suites=("compute",)))

    assert "an earlier request waits" in caught.value.detail
    assert site.requests.take() == selection_text(Selection())


def test_a_request_is_refused_while_the_benchmarks_run(site):
    with site.lock.held(wait=False), pytest.raises(BenchmarksNotStarted) as caught:
        site.control.start_benchmarks(Selection())

    assert "they are running" in caught.value.detail
    assert not site.requests.is_waiting()


def test_a_request_for_an_unknown_suite_is_refused(site):
    with pytest.raises(InvalidInput, match="speed"):
        site.control.start_benchmarks(Selection(suites=("speed",)))

    assert not site.requests.is_waiting()


def test_the_progress_of_a_run_is_reported(site):
    progress = Progress(
        started_at=100, steps_total=8, steps_done=3, steps_failed=1, steps_running=("a", "b")
    )
    with site.lock.held(wait=False):
        site.progress.write(progress_text(progress))

        assert site.control.benchmark_status() == RunStatus(
            state=RunState.RUNNING, progress=progress
        )

    assert site.control.benchmark_status().state is RunState.INTERRUPTED


def test_the_reason_of_a_failed_run_is_reported(site):
    progress = Progress(started_at=100, ended_at=160, failure="no node accepts jobs")

    site.progress.write(progress_text(progress))

    assert site.control.benchmark_status() == RunStatus(state=RunState.FAILED, progress=progress)
