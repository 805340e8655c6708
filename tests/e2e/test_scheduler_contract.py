# SPDX-License-Identifier: Apache-2.0
"""The tests that every implementation of port ``Scheduler`` must pass, on the lab's Slurm.

The implementations are the client of the cluster agent and the scheduler over SSH. The tests
themselves are in tests/adapters/slurm.
"""

import time

import pytest
from tests.adapters.slurm.cluster import RealCluster
from tests.adapters.slurm.real_contract import *  # noqa: F403
from tests.adapters.slurm.scheduler_contract import *  # noqa: F403
from tests.e2e.slurm_jobs import create_user, operator_access

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.adapters.slurm.ssh import SshAccess, SshScheduler
from gridstead.errors import NotAllowed, SchedulerUnavailable

pytestmark = pytest.mark.slurm

CUSTOMER = f"0x{'c' * 40}"
PKI = "/etc/gridstead/pki"


def copy_file(lab, host, source, target):
    target.write_text(lab.run(host, "cat", source).stdout)
    target.chmod(0o600)
    return target


@pytest.fixture(scope="module")
def open_agent(lab, tmp_path_factory):
    """Return a function that connects to the agent with the certificate of a service on a host."""
    folder = tmp_path_factory.mktemp("pki")
    ca = copy_file(lab, "control", f"{PKI}/ca.crt", folder / "ca.crt")
    channels = []

    def connect(host, name):
        certificate = copy_file(lab, host, f"{PKI}/{name}.crt", folder / f"{name}.crt")
        key = copy_file(lab, host, f"{PKI}/{name}.key", folder / f"{name}.key")
        peer = GrpcPeer(
            address=f"{lab.address('controller')}:6830", ca=ca, certificate=certificate, key=key
        )
        channels.append(open_channel(peer))
        return AgentClient(channels[-1])

    yield connect
    for channel in channels:
        channel.close()


@pytest.fixture(scope="module")
def agent(open_agent):
    return open_agent("control", "supervisor")


@pytest.fixture(scope="module")
def access(lab, tmp_path_factory):
    return operator_access(lab, tmp_path_factory.mktemp("ssh"))


@pytest.fixture(scope="module")
def ssh(access):
    scheduler = SshScheduler(access, SystemClock())
    yield scheduler
    scheduler.close()


@pytest.fixture(scope="module")
def user(lab, agent):
    return create_user(lab, agent, CUSTOMER)


@pytest.fixture(params=["agent", "ssh"])
def cluster(request, user):
    return RealCluster(request.getfixturevalue(request.param), user)


def test_the_agent_refuses_the_certificate_of_the_logger(open_agent):
    with pytest.raises(NotAllowed):
        open_agent("control", "logger").list_jobs()


def test_the_agent_returns_the_reports_of_a_job_soon_after_its_end(agent, user):
    cluster = RealCluster(agent, user)
    submission = cluster.new_submission("exit 0")
    cursor = max((report.sequence for report in agent.pull(after=0, wait_s=0)), default=0)

    slurm_job_id = agent.submit(submission)

    events = set()
    deadline = time.monotonic() + 30
    while not {"start", "end", "record"} <= events:
        assert time.monotonic() < deadline, f"received only {events}"
        for report in agent.pull(after=cursor, wait_s=5):
            cursor = report.sequence
            if report.slurm_job_id == slurm_job_id and report.uid == user.uid:
                events.add(report.event)


def test_ssh_refuses_a_host_whose_key_is_not_pinned(access, tmp_path):
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    impostor = SshAccess(
        endpoint=access.endpoint,
        user=access.user,
        key_file=access.key_file,
        known_hosts_file=known_hosts,
    )

    with pytest.raises(SchedulerUnavailable, match="not found in known_hosts"):
        SshScheduler(impostor, SystemClock()).list_jobs()


def test_the_operator_cannot_run_an_unlisted_command_as_root(lab):
    answer = lab.run(
        "login", "runuser", "-u", "gridstead-operator", "--", "sudo", "-n", "id", check=False
    )

    assert answer.returncode != 0
