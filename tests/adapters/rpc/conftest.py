# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the RPC tests: the Job Definition service and the logger, on the loopback."""

from __future__ import annotations

import ssl
from dataclasses import replace

import httpx
import pytest
from tests.fakes.certificates import Authority
from tests.fakes.definitions import (
    MemoryModules,
    MemoryScripts,
    OneJobLedger,
    Wallet,
    job_id,
    new_service,
)
from tests.fakes.store import FakeClock

from gridstead.adapters.chain.wallet import recover
from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.logs.client import LoggerClient, WriteAccess
from gridstead.adapters.logs.files import FileLogs, Limits
from gridstead.domain.logs.access import WritePermit, make_write_token
from gridstead.domain.logs.log import LogId
from gridstead.proto.logger_pb2_grpc import LoggerAPIStub
from gridstead.rpc.definitions.graphql import GraphqlService, graphql_server
from gridstead.rpc.definitions.job_definitions import SBatchServer
from gridstead.rpc.logs.server import LoggerServer
from gridstead.rpc.rate_limit import RateLimiter
from gridstead.services.logs.logger import Logger

NAME = "0x" + "07" * 32  # the name of the log
MAX_BYTES = 100_000  # the maximum size of a log
KEY = b"k" * 32
LOG_IDENTITY = "1" * 32
SUBMIT = "mutation Submit($job: Job!) { submit(job: $job) }"


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def server_tls(authority):
    return authority.issue("server")


def access_to(owner, clock, *, name=NAME, log_identity=LOG_IDENTITY):
    """Return what a writer needs to write to a log: its owner, its name and a token.

    The token expires after ten minutes.
    """
    log = LogId(owner=owner, name=name, log_identity=log_identity)
    token = make_write_token(KEY, WritePermit(log=log, expires_at=clock.now() + 600))
    return WriteAccess(owner=owner, log_name=name, token=token)


def no_limit():
    """Return a rate limit that no test reaches."""
    return RateLimiter(per_s=10**9, burst=10**9, subject="calls")


def new_graphql_service(submit, **changes):
    """Return a GraphQL service that calls ``submit``. ``changes`` replaces default arguments."""
    service = GraphqlService(
        submit=submit,
        validate=lambda _: "valid",
        check_ready=lambda: None,
        metrics=lambda: "# EOF\n",
        metrics_networks=(),
        request_limiter=no_limit(),
        byte_limiter=no_limit(),
    )
    return replace(service, **changes)


def new_graphql_server(tls, submit, **changes):
    """Return a GraphQL server on a free port of the loopback, not yet started."""
    service = new_graphql_service(submit, **changes)
    return graphql_server(host="127.0.0.1", port=0, tls=tls, service=service)


def new_sbatch_server(tls, listen="127.0.0.1:0", **changes):
    """Return a gRPC server of the Job Definition service, not yet started.

    ``changes`` replaces default arguments.
    """
    arguments = {
        "challenge": lambda _: b"x",
        "get_sbatch": lambda _: None,
        "call_limiter": no_limit(),
        "to_job_id": job_id,
    }
    return SBatchServer(listen, tls, **(arguments | changes))


def new_http_client(ca, **options):
    """Return an HTTP client that trusts the CA and ignores proxies."""
    context = ssl.create_default_context(cafile=ca)
    return httpx.Client(verify=context, trust_env=False, **options)


def answer_of(server, ca, query, job=None):
    """Start a server, send it one query, stop it, and return the answer."""
    url = f"https://localhost:{server.start()}/graphql"
    try:
        with new_http_client(ca) as http:
            return http.post(url, json={"query": query, "variables": {"job": job}}).json()
    finally:
        server.stop()


class DefinitionServers:
    """The Job Definition service with its GraphQL and gRPC servers on the loopback."""

    def __init__(self, server_tls):
        self.scripts = MemoryScripts()
        self.ledger = OneJobLedger()
        self.clock = FakeClock()
        self.modules = MemoryModules()
        self.service = self.new_service()
        self.graphql = new_graphql_server(server_tls, self.submit, validate=self.validate)
        self.sbatch = new_sbatch_server(
            server_tls, challenge=self.challenge, get_sbatch=self.get_sbatch
        )
        self.url = f"https://localhost:{self.graphql.start()}/graphql"
        self.address = f"localhost:{self.sbatch.start()}"

    # Tests replace self.service, so the servers must read it at each call.

    def submit(self, job, customer, count_bytes):
        return self.service.submit(job, customer, count_bytes)

    def validate(self, module):
        return self.service.validate(module)

    def challenge(self, address):
        return self.service.challenge(address)

    def get_sbatch(self, request):
        return self.service.get_sbatch(request)

    def new_service(self, key=KEY):
        return new_service(self.scripts, self.ledger, self.clock, key=key, modules=self.modules)

    def stop(self):
        self.graphql.stop()
        self.sbatch.stop()


@pytest.fixture(scope="module")
def servers(server_tls):
    """Yield the running servers of the Job Definition service."""
    servers = DefinitionServers(server_tls)
    yield servers
    servers.stop()


@pytest.fixture(scope="module")
def ca(authority):
    """Return the file of the CA certificate."""
    return authority.certificate


# Fixtures of the logger.


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return the folder of the logs."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def clock():
    return FakeClock()


@pytest.fixture(scope="module")
def service(root, clock):
    """Yield the logger without its gRPC server."""
    logs = FileLogs(root, key=KEY, limits=Limits(log_bytes=MAX_BYTES))
    yield Logger(store=logs, key=KEY, clock=clock, recover=recover)
    logs.close()


@pytest.fixture(scope="module")
def address(service, server_tls):
    """Yield the address of the running gRPC server of the logger."""
    server = LoggerServer("127.0.0.1:0", server_tls, service)
    yield f"localhost:{server.start()}"
    server.stop()


@pytest.fixture
def peer(address, authority):
    """Return the logger's address and CA, as a client needs them."""
    return GrpcPeer(address=address, ca=authority.certificate)


@pytest.fixture
def client(peer):
    client = LoggerClient(peer)
    yield client
    client.close()


@pytest.fixture
def owner():
    """Return the wallet of the customer who owns the log."""
    return Wallet()


@pytest.fixture
def log(owner):
    return LogId(owner=owner.address, name=NAME, log_identity=LOG_IDENTITY)


@pytest.fixture
def permit(log, clock):
    """Return the permit to write to the log, as the logger reads it from a token."""
    return WritePermit(log=log, expires_at=clock.now() + 600)


@pytest.fixture
def access(owner, clock):
    """Return what a writer sends to the logger to write to the log."""
    return access_to(owner.address, clock)


@pytest.fixture
def stub(peer):
    """Yield the generated client of the logger."""
    with open_channel(peer) as channel:
        yield LoggerAPIStub(channel)
