# SPDX-License-Identifier: Apache-2.0
"""Contract tests of ports BenchmarkHistory and BenchmarkRuns.

They run on files in memory, on files on disk, and on an agent that reads files on disk.
"""

import pytest
from tests.fakes.agent import FakeAccounts, FakeReportStore, FakeSlurm
from tests.fakes.benchmarks import MemoryReportFiles, report
from tests.fakes.certificates import Authority
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.adapters.benchmarks.reports import JsonReports
from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.domain.benchmarks.report import PastRun
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.rpc.slurm import AgentServer
from gridstead.rpc.tls import TlsFiles
from gridstead.services.benchmarks.history import ReportHistory
from gridstead.services.slurm.agent import Agent


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


class Site:
    """The files with the reports of a site, and what reads them."""

    def __init__(self, files, history):
        self.add = files.add
        self.history = history


@pytest.fixture(params=["memory", "disk", "agent"])
def site(request, authority, tmp_path):
    """Yield a site without reports."""
    files = MemoryReportFiles() if request.param == "memory" else JsonReports(tmp_path)
    history = ReportHistory(files)
    if request.param != "agent":
        yield Site(files, history)
        return
    server = start_agent(authority, history)
    with connect(authority, server) as channel:
        yield Site(files, AgentClient(channel))
    server.stop()


def start_agent(authority, history):
    """Return a started agent."""
    certificate = authority.issue("agent")
    clock = FakeClock()
    agent = Agent(
        slurm=FakeSlurm(FakeScheduler(clock)),
        accounts=FakeAccounts(),
        reports=FakeReportStore(),
        wallet_ids=WalletIdRange(),
        clock=clock,
    )
    files = TlsFiles(
        certificate=certificate.certificate, key=certificate.key, client_ca=authority.certificate
    )
    server = AgentServer(
        "localhost:0",
        files,
        scheduler=agent,
        list_records=agent.list_records,
        reports=agent,
        report_texts=history.last_texts,
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
        site.add(each)

    assert site.history.last_reports(2) == tuple(reports[1:])
    assert site.history.last_reports(100) == tuple(reports)


def test_the_last_two_runs_have_the_labels_of_their_reports(site):
    for ended_at in (999, 1_000, 100_000):
        site.add(report(ended_at))

    assert [run.ended_at for run in site.history.last_runs()] == [1_000, 100_000]
    assert site.history.last_runs()[-1] == PastRun(
        ended_at=100_000,
        labels={
            "benchmark.suite": "gridstead-1-lab",
            "benchmark.time": "100000",
            "compute.gflops": "12.50",
        },
    )
