# SPDX-License-Identifier: Apache-2.0
"""The gRPC client and server of the agent: access control, and the errors that the client raises.

The agent runs on the Slurm controller and calls Slurm for the supervisor. The *gate* of a user
shows whether the user's jobs can run.
"""

import socket
import threading
from dataclasses import replace

import grpc
import pytest
from tests.fakes.agent import FakeAccounts, FakeReportStore, FakeSlurm
from tests.fakes.benchmarks import FakeBenchmarkControl
from tests.fakes.certificates import Authority
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.slurm.agent import AgentClient
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.slurm.hint import Hint
from gridstead.domain.supervisor.attempt import ControllerSample
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.errors import (
    ConfigError,
    InvalidInput,
    NotAllowed,
    SchedulerUnavailable,
    SubmitRejected,
    UnexpectedOutput,
)
from gridstead.proto import agent_pb2 as pb
from gridstead.rpc.slurm import AgentServer, DatagramReceiver
from gridstead.rpc.tls import TlsFiles
from gridstead.services.slurm.agent import Agent

USER = GridUser(address=f"0x{1:040x}", uid=200001, gid=100000)
JOB_KEY = JobKey(
    job_id=JobId(chain_id=1, contract=f"0x{2:040x}", number=3), batch_location_hash="abc"
)
SUBMISSION = Submission(
    job_key=JOB_KEY,
    user=USER,
    resources=Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1),
    time_limit_min=5,
    script=Script(text="#!/bin/sh\n"),
)


class AgentConnection:
    """A running server of an agent whose ports are fakes, and methods that create clients."""

    def __init__(self, authority):
        self.authority = authority
        clock = FakeClock()
        self.scheduler = FakeScheduler(clock)
        self.report_texts = []
        self.slurm = FakeSlurm(self.scheduler)
        self.reports = FakeReportStore()
        agent = Agent(
            slurm=self.slurm,
            accounts=FakeAccounts(USER),
            reports=self.reports,
            wallet_ids=WalletIdRange(),
            clock=clock,
        )
        server_certificate = authority.issue("agent")
        files = TlsFiles(
            certificate=server_certificate.certificate,
            key=server_certificate.key,
            client_ca=authority.certificate,
        )
        self.server = AgentServer(
            "localhost:0",
            files,
            scheduler=agent,
            list_records=agent.list_records,
            reports=agent,
            report_texts=self.last_texts,
            benchmarks=FakeBenchmarkControl(),
            allowed_client="supervisor",
        )
        self.server.start()
        self.channels = []

    def last_texts(self, count, *, whole_site):
        yield from self.report_texts

    def client(self, certificate=None):
        """Return a client with this certificate, or by default without a certificate."""
        peer = GrpcPeer(
            address=f"localhost:{self.server.port}",
            ca=self.authority.certificate,
            certificate=certificate.certificate if certificate else None,
            key=certificate.key if certificate else None,
        )
        self.channels.append(open_channel(peer))
        return AgentClient(self.channels[-1])

    def supervisor(self):
        """Return a client with the certificate of the supervisor."""
        return self.client(self.authority.issue("supervisor"))

    def close(self):
        for channel in self.channels:
            channel.close()
        self.server.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def connection(authority):
    """Yield the running server of an agent."""
    connection = AgentConnection(authority)
    yield connection
    connection.close()


@pytest.mark.parametrize("count", [0, 101])
def test_another_number_of_reports_than_the_stored_ones_is_refused(connection, count):
    with pytest.raises(InvalidInput, match="allowed are 1 to 100"):
        connection.supervisor().last_reports(count)


def test_a_report_in_an_unknown_format_is_an_error(connection):
    connection.report_texts = ['{"format": "of a later release"}']

    with pytest.raises(UnexpectedOutput, match="output of agent"):
        connection.supervisor().last_reports(1)


def test_a_certificate_with_another_name_is_refused(connection):
    client = connection.client(connection.authority.issue("logger"))

    with pytest.raises(NotAllowed):
        client.submit(SUBMISSION)
    with pytest.raises(NotAllowed):
        client.last_reports(1)

    assert connection.scheduler.submissions == []


def test_a_client_without_a_certificate_of_the_ca_is_refused(connection, tmp_path):
    untrusted_certificate = Authority(tmp_path, name="other-ca").issue("supervisor")

    for client in (connection.client(), connection.client(untrusted_certificate)):
        with pytest.raises(SchedulerUnavailable):
            client.hardware()


def test_an_agent_without_a_client_ca_does_not_start(connection):
    server_certificate = connection.authority.issue("agent")

    with pytest.raises(ConfigError):
        AgentServer(
            "localhost:0",
            TlsFiles(certificate=server_certificate.certificate, key=server_certificate.key),
            scheduler=connection.scheduler,
            list_records=connection.scheduler.list_records_by_name,
            reports=connection.reports,
            report_texts=None,
            benchmarks=FakeBenchmarkControl(),
            allowed_client="supervisor",
        )


def test_the_client_gets_the_reason_of_a_rejected_submission(connection):
    connection.scheduler.reject = "no such partition"

    with pytest.raises(SubmitRejected, match="no such partition"):
        connection.supervisor().submit(SUBMISSION)


@pytest.mark.parametrize(
    "job_key",
    [
        replace(JOB_KEY, batch_location_hash=""),
        replace(JOB_KEY, batch_location_hash="a/b"),
        replace(JOB_KEY, batch_location_hash="x" * 32),
        replace(JOB_KEY, job_id=replace(JOB_KEY.job_id, contract="0x1")),
        replace(JOB_KEY, job_id=replace(JOB_KEY.job_id, number=1 << 256)),
    ],
)
def test_malformed_job_key_is_refused(connection, job_key):
    client = connection.supervisor()
    slurm_job_id = client.submit(SUBMISSION)

    with pytest.raises(SubmitRejected, match="invalid job key"):
        client.submit(replace(SUBMISSION, job_key=job_key))
    with pytest.raises(InvalidInput, match="invalid job key"):
        client.cancel(slurm_job_id, job_key=job_key)
    with pytest.raises(InvalidInput, match="invalid job key"):
        client.extend(slurm_job_id, job_key=job_key, time_limit_min=9)

    assert connection.scheduler.submissions == [SUBMISSION]
    assert connection.scheduler.attempt(slurm_job_id).is_alive


@pytest.mark.parametrize("names", [["0x1"], ["x,y"], [JOB_KEY.job_id.slurm_job_name, "--help"]])
def test_accounting_query_is_refused_if_a_name_is_not_that_of_a_grid_job(connection, names):
    client = connection.supervisor()

    with pytest.raises(grpc.RpcError) as error:
        client._stub.Accounting(pb.AccountingRequest(names=names), timeout=9)

    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "failure", [{}, {"is_step_out_of_memory": True}, {"failed_step": 2}], ids=str
)
def test_an_attempt_has_its_failed_step_and_whether_a_step_exceeded_its_memory(
    connection, monkeypatch, failure
):
    client = connection.supervisor()
    slurm_job_id = client.submit(SUBMISSION)
    attempt = connection.scheduler.attempt(slurm_job_id)
    attempt = replace(attempt, **failure)
    sample = ControllerSample(taken_at=1, attempts=(attempt,))
    monkeypatch.setattr(connection.scheduler, "list_jobs", lambda: sample)

    assert client.list_jobs() == sample


def test_a_submission_as_root_is_rejected(connection):
    as_root = replace(SUBMISSION, user=replace(USER, uid=0, gid=0))

    with pytest.raises(SubmitRejected, match="cannot submit for"):
        connection.supervisor().submit(as_root)


def test_an_invalid_request_raises_invalid_input(connection):
    with pytest.raises(InvalidInput):
        connection.supervisor().cancel(1, job_key="not a job key")


def test_an_unreachable_slurm_raises_scheduler_unavailable(connection):
    connection.scheduler.down = True

    with pytest.raises(SchedulerUnavailable):
        connection.supervisor().list_jobs()


def test_unexpected_output_of_slurm_raises_unexpected_output(connection, monkeypatch):
    def fail():
        raise UnexpectedOutput("squeue", "gibberish")

    monkeypatch.setattr(connection.slurm, "list_jobs", fail)

    with pytest.raises(UnexpectedOutput):
        connection.supervisor().list_jobs()


def test_a_stopped_agent_raises_scheduler_unavailable(connection):
    client = connection.supervisor()
    connection.server.stop()

    with pytest.raises(SchedulerUnavailable):
        client.list_jobs()


def test_pull_returns_the_reports_after_a_sequence_number(connection):
    connection.reports.add([Hint(event="end", slurm_job_id=7, uid=200001, occurred_at=5)])
    client = connection.supervisor()

    (report,) = client.pull(after=0, wait_s=0)

    assert report.event == "end"
    assert report.slurm_job_id == 7
    assert report.uid == 200001
    assert report.occurred_at == 5
    assert client.pull(after=report.sequence, wait_s=0) == ()


def test_the_gate_of_an_unknown_user_has_no_linux_account(connection):
    assert connection.supervisor().check_gate(f"0x{9:040x}").user is None


def test_datagram_is_received_with_its_source_address():
    received_datagrams = []
    has_arrived = threading.Event()

    def receive(datagram, source):
        received_datagrams.append((datagram, source))
        has_arrived.set()

    receiver = DatagramReceiver("127.0.0.1:0", receive)
    receiver.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", ("127.0.0.1", receiver.port))
    assert has_arrived.wait(10)
    receiver.check()
    receiver.stop()

    assert received_datagrams == [(b"hello", "127.0.0.1")]


def test_check_of_a_datagram_receiver_fails_if_it_does_not_run():
    receiver = DatagramReceiver("127.0.0.1:0", lambda *_: None)

    with pytest.raises(RuntimeError):
        receiver.check()
    receiver.stop()


def test_a_port_in_use_is_a_config_error():
    receiver = DatagramReceiver("127.0.0.1:0", lambda *_: None)

    with pytest.raises(ConfigError):
        DatagramReceiver(f"127.0.0.1:{receiver.port}", lambda *_: None)
    receiver.stop()
