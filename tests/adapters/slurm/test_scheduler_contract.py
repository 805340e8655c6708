# SPDX-License-Identifier: Apache-2.0
"""Contract tests of port Scheduler, on the fake scheduler and on an agent that calls the fake.

The tests, which every implementation of the port must pass, are in scheduler_contract.py.
"""

import pytest
from tests.adapters.slurm.cluster import FakeCluster
from tests.adapters.slurm.scheduler_contract import *  # noqa: F403
from tests.fakes.agent import FakeAccounts, FakeReportStore, FakeSlurm
from tests.fakes.certificates import Authority
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.rpc.slurm import AgentServer
from gridstead.rpc.tls import TlsFiles
from gridstead.services.slurm.agent import Agent


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(params=["fake", "agent"])
def cluster(request, authority):
    """Yield the cluster on which the tests run."""
    clock = FakeClock()
    fake = FakeScheduler(clock)
    if request.param == "fake":
        yield FakeCluster(scheduler=fake, fake=fake, clock=clock)
        return
    server_certificate = authority.issue("agent")
    accounts = FakeAccounts()
    agent = Agent(
        slurm=FakeSlurm(fake),
        accounts=accounts,
        reports=FakeReportStore(),
        wallet_ids=WalletIdRange(),
        clock=clock,
    )
    server = AgentServer(
        "localhost:0",
        TlsFiles(
            certificate=server_certificate.certificate,
            key=server_certificate.key,
            client_ca=authority.certificate,
        ),
        scheduler=agent,
        list_records=agent.list_records,
        reports=agent,
        report_texts=None,
        benchmarks=None,
        allowed_client="supervisor",
    )
    server.start()
    client_certificate = authority.issue("supervisor")
    with open_channel(
        GrpcPeer(
            address=f"localhost:{server.port}",
            ca=authority.certificate,
            certificate=client_certificate.certificate,
            key=client_certificate.key,
        )
    ) as channel:
        cluster = FakeCluster(scheduler=AgentClient(channel), fake=fake, clock=clock)
        accounts.users[cluster.user.address] = cluster.user
        yield cluster
    server.stop()
