# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service on real sockets: its two servers, our two clients, and callers that mean no good."""

from __future__ import annotations

import json
import ssl
from dataclasses import replace

import grpc
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.certificates import Authority
from tests.fakes.definitions import (
    MemoryScripts,
    OneJobLedger,
    Wallet,
    matched_job,
    wire_workflow,
)
from tests.fakes.store import FakeClock

from gridstead.adapters.chain.wallet import recover
from gridstead.adapters.channel import Peer, open_channel
from gridstead.adapters.job_definitions import JobDefinitionClient, ProviderWallet, submit_workflow
from gridstead.errors import (
    ConfigError,
    InvalidWorkflow,
    JobDefinitionUnavailable,
    ScriptUnavailable,
    Transient,
    UnexpectedOutput,
)
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub
from gridstead.rpc.graphql import GraphqlServer
from gridstead.rpc.job_definitions import SBatchServer
from gridstead.rpc.tls import TlsFiles
from gridstead.services.job_definitions import JobDefinitions, LoggerAccess

KEY = b"k" * 32
CUSTOMER = "0x" + "c0" * 20


class Grid:
    """The service with both servers on the loopback."""

    def __init__(self, server_tls):
        self.scripts = MemoryScripts()
        self.ledger = OneJobLedger()
        self.clock = FakeClock()
        self.service = self.new_service()
        self.graphql = GraphqlServer(host="127.0.0.1", port=0, tls=server_tls, submit=self.submit)
        self.sbatch = SBatchServer(
            "127.0.0.1:0",
            server_tls,
            challenge=self.challenge,
            get_sbatch=self.get_sbatch,
        )
        self.url = f"https://localhost:{self.graphql.start()}/graphql"
        self.address = f"localhost:{self.sbatch.start()}"

    # The service may be another one by the time it is called.

    def submit(self, job):
        return self.service.submit(job)

    def challenge(self):
        return self.service.challenge()

    def get_sbatch(self, request):
        return self.service.get_sbatch(request)

    def new_service(self):
        return JobDefinitions(
            store=self.scripts,
            ledger=self.ledger,
            clock=self.clock,
            recover=recover,
            logger=LoggerAccess(url="logger:8445", key=KEY),
        )

    def stop(self):
        self.graphql.stop()
        self.sbatch.stop()


@pytest.fixture(scope="module")
def grid(server_tls):
    grid = Grid(server_tls)
    yield grid
    grid.stop()


@pytest.fixture(scope="module")
def ca(authority):
    return authority.certificate


@pytest.fixture
def wallet():
    return Wallet()


@pytest.fixture
def client(grid, ca, wallet):
    client = JobDefinitionClient(
        Peer(address=grid.address, ca=ca),
        ProviderWallet(address=wallet.address, sign=wallet.sign),
        logger_ca_file="/etc/ca.crt",
    )
    yield client
    client.close()


@pytest.fixture
def http(grid, ca):
    with httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False) as http:
        yield http


def match(grid, wallet, **workflow):
    """Submit a workflow and give its job to the wallet."""
    script_id = grid.service.submit(wire_workflow(**workflow))
    grid.ledger.job = matched_job(CUSTOMER, wallet.address, script_id)
    return grid.ledger.job


class TestFetch:
    def test_script_goes_to_the_provider_of_its_job_with_secrets_beside(self, grid, client, wallet):
        job = match(grid, wallet, enableLogging=True)

        script = client.fetch(job)

        assert "gridstead-log-writer" in script.text
        assert script.environment["GRIDSTEAD_LOGGER_URL"] == "logger:8445"
        assert script.environment["GRIDSTEAD_LOGGER_CA"] == "/etc/ca.crt"
        assert script.environment["GRIDSTEAD_LOG_OWNER"] == CUSTOMER
        assert script.environment["GRIDSTEAD_LOG_NAME"] == job.id.slurm_name
        assert script.environment["GRIDSTEAD_LOG_TOKEN"] not in script.text

    def test_job_without_logging_has_no_secrets(self, grid, client, wallet):
        job = match(grid, wallet)

        assert client.fetch(job).environment == {}

    def test_wallet_that_writes_v_as_0_or_1_is_known(self, grid, client, wallet):
        wallet.low_v = True

        assert client.fetch(match(grid, wallet)).text.startswith("#!/bin/bash -l\n")

    def test_script_of_another_provider_is_refused(self, grid, client):
        job = match(grid, Wallet())

        with pytest.raises(ScriptUnavailable, match="UNAUTHENTICATED"):
            client.fetch(job)

    def test_script_that_does_not_exist_is_refused(self, grid, client, wallet):
        match(grid, wallet)
        grid.ledger.job = job = matched_job(CUSTOMER, wallet.address, "nothing")

        with pytest.raises(ScriptUnavailable, match="NOT_FOUND"):
            client.fetch(job)

    def test_chain_that_does_not_answer_is_transient(self, grid, client, wallet):
        job = match(grid, wallet)
        grid.ledger.down = True

        with pytest.raises(JobDefinitionUnavailable, match="INTERNAL"):
            client.fetch(job)

        grid.ledger.down = False

    def test_restart_between_challenge_and_answer_is_not_seen(self, grid, client, wallet):
        job = match(grid, wallet)
        signs = 0

        def sign(challenge):
            nonlocal signs
            signs += 1
            if signs == 1:
                grid.service = grid.new_service()
            return wallet.sign(challenge)

        client._wallet = replace(client._wallet, sign=sign)

        assert client.fetch(job).text
        assert signs == 2

    def test_service_that_is_away_is_transient(self, ca, wallet):
        client = JobDefinitionClient(
            Peer(address="localhost:1", ca=ca), ProviderWallet(address=wallet.address, sign=wallet.sign)
        )

        with pytest.raises(JobDefinitionUnavailable):
            client.fetch(matched_job(CUSTOMER, wallet.address, "x"))

        client.close()

    def test_service_of_another_ca_is_not_trusted(self, grid, tmp_path, wallet):
        stranger = Authority(tmp_path, name="stranger")
        client = JobDefinitionClient(
            Peer(address=grid.address, ca=stranger.certificate),
            ProviderWallet(address=wallet.address, sign=wallet.sign),
        )

        with pytest.raises(JobDefinitionUnavailable):
            client.fetch(match(grid, wallet))

        client.close()

    def test_ca_that_cannot_be_read_is_the_operators(self, tmp_path):
        with pytest.raises(ConfigError, match="could not read"):
            open_channel(Peer(address="localhost:1", ca=tmp_path / "none"))


class TestWire:
    """GetSBatch as others may send it."""

    @pytest.fixture
    def stubs(self, grid, ca):
        channel = open_channel(Peer(address=grid.address, ca=ca))
        yield AuthAPIStub(channel), SBatchAPIStub(channel)
        channel.close()

    @pytest.fixture
    def request_(self, grid, wallet, stubs):
        """A request that would be answered."""
        job = match(grid, wallet, enableLogging=True)
        challenge = stubs[0].Challenge(ChallengeRequest()).challenge
        return GetSBatchRequest(
            batch_location_hash=job.batch_location_hash,
            signed_challenge=wallet.sign(challenge),
            challenge=challenge,
            provider_address=bytes.fromhex(wallet.address[2:]),
            customer_address=bytes.fromhex(CUSTOMER[2:]),
            job_id=job.id.slurm_name,
        )

    def test_challenge_is_json_with_message_and_nonce(self, stubs):
        content = json.loads(stubs[0].Challenge(ChallengeRequest()).challenge)

        assert content["message"] == "login"
        assert len(content["nonce"]) == 24

    def test_old_caller_gets_the_script_without_logging_and_no_secret(self, stubs, request_):
        answer = stubs[1].GetSBatch(request_)

        assert "gridstead-log-writer" not in answer.sbatch
        assert "logging is off" in answer.sbatch
        assert answer.grid_logger_url == "logger:8445"
        assert not answer.secrets
        assert not answer.log_write_token

    def test_challenge_is_good_once(self, stubs, request_):
        stubs[1].GetSBatch(request_)

        assert status_of(stubs, request_) is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"signed_challenge": b""}, "UNAUTHENTICATED"),
            ({"signed_challenge": b"\x00" * 64}, "UNAUTHENTICATED"),
            ({"signed_challenge": b"\xff" * 65}, "UNAUTHENTICATED"),
            ({"signed_challenge": b"\x00" * 65}, "UNAUTHENTICATED"),
            ({"challenge": b"{}"}, "UNAUTHENTICATED"),
            ({"challenge": b"[" * 100_000}, "UNAUTHENTICATED"),
            ({"challenge": b"\xff\xfe"}, "UNAUTHENTICATED"),
            ({"provider_address": b"\x01" * 20}, "UNAUTHENTICATED"),
            ({"customer_address": b"\x01" * 20}, "UNAUTHENTICATED"),
            ({"provider_address": b"\x01"}, "INVALID_ARGUMENT"),
            ({"customer_address": b""}, "INVALID_ARGUMENT"),
            ({"job_id": ""}, "INVALID_ARGUMENT"),
            ({"job_id": "0x" + "zz" * 32}, "INVALID_ARGUMENT"),
            ({"job_id": "0x" + "ff" * 32}, "INTERNAL"),
            ({"batch_location_hash": ""}, "NOT_FOUND"),
            ({"batch_location_hash": "../../etc/passwd"}, "NOT_FOUND"),
        ],
    )
    def test_wrong_field_has_the_wires_status(self, stubs, request_, change, code):
        for name, value in change.items():
            setattr(request_, name, value)

        assert status_of(stubs, request_).name == code

    def test_old_job_id_of_another_case_is_taken(self, stubs, request_):
        request_.job_id = "0x" + request_.job_id[2:].upper()

        assert stubs[1].GetSBatch(request_).sbatch

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.binary(max_size=300))
    def test_any_bytes_get_a_status_and_the_service_lives(self, stubs, grid, ca, data):
        channel = open_channel(Peer(address=grid.address, ca=ca))
        raw = channel.unary_unary("/sbatchapi.v1alpha1.SBatchAPI/GetSBatch")

        with channel, pytest.raises(grpc.RpcError) as caught:
            raw(data)

        assert caught.value.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)


def status_of(stubs, request):
    with pytest.raises(grpc.RpcError) as caught:
        stubs[1].GetSBatch(request)
    return caught.value.code()


class TestSubmit:
    def test_our_client_stores_a_workflow(self, grid, ca):
        script_id = submit_workflow(grid.url, wire_workflow(), ca=ca)

        assert len(script_id) == 31
        assert "echo hello" in grid.scripts.records[script_id]

    def test_every_broken_rule_comes_back(self, grid, ca):
        with pytest.raises(InvalidWorkflow) as caught:
            submit_workflow(grid.url, wire_workflow(steps=[{"run": {"command": "", "shell": "/bin/ash"}}]), ca=ca)

        assert [problem.path for problem in caught.value.problems] == ["steps[0].run.command", "steps[0].run.shell"]

    def test_unknown_field_is_refused_by_graphql_itself(self, http, grid):
        job = wire_workflow(steps=[{"run": {"command": "true", "container": {"image": "ubuntu:latest"}}}])

        response = post(http, grid, variables={"job": job})

        assert response.status_code == 422
        assert "container" in response.json()["errors"][0]["message"]

    def test_broken_rule_is_status_200_with_errors(self, http, grid):
        response = post(http, grid, variables={"job": wire_workflow(steps=[])})

        assert response.status_code == 200
        error = response.json()["errors"][0]
        assert error["message"] == "steps: must not be empty"
        assert error["extensions"]["type"] == "validation"

    def test_query_job_is_refused(self, http, grid):
        query = "query Job($batchLocationHash: String!) { job(batchLocationHash: $batchLocationHash) }"

        response = post(http, grid, query=query, variables={"batchLocationHash": "x"})

        assert response.status_code == 200
        assert "provider" in response.json()["errors"][0]["message"]

    def test_one_request_submits_one_workflow(self, http, grid):
        query = "mutation S($job: Job!) { a: submit(job: $job) b: submit(job: $job) }"

        response = post(http, grid, query=query, variables={"job": wire_workflow()})

        assert response.status_code == 422

    def test_schema_is_not_told_by_default(self, http, grid):
        assert post(http, grid, query="{ __schema { types { name } } }").status_code == 422

    def test_schema_is_told_if_asked_to(self, server_tls, ca):
        server = GraphqlServer(host="127.0.0.1", port=0, tls=server_tls, submit=lambda _: "x", introspection=True)

        answer = ask(server, ca, "{ __schema { types { name } } }")

        assert "StepRun" in {kind["name"] for kind in answer["data"]["__schema"]["types"]}

    def test_browsers_of_any_origin_may_call(self, http, grid):
        headers = {
            "Origin": "https://app.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "accept,content-type",
        }

        response = http.options(grid.url, headers=headers)

        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] in ("*", "https://app.example")
        assert "access-control-allow-credentials" not in response.headers

    def test_health_is_ok(self, http, grid):
        assert http.get(grid.url.replace("/graphql", "/health")).text == "ok"

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            (b"", 400),
            (b"[]", 400),
            (b"{", 400),
            (b"[" * 100_000, 400),
            (b"\xff", 400),
            (b"{}", 422),
            (b'{"query": 5}', 422),
            (b'{"query": "mutation {"}', 422),
            (b'{"query": "{ job }", "variables": []}', 422),
            (b'{"query": "' + b"{ a" * 3000 + b'"}', 422),
            (b'{"query": "{ a(b: ' + b"[" * 1900 + b'"}', 422),
            (b"x" * 600_000, 413),
        ],
    )
    def test_request_that_is_none_is_told_so(self, http, grid, body, status):
        response = http.post(grid.url, content=body)

        assert response.status_code == status
        assert response.json()["errors"][0]["message"]

    def test_bug_is_not_described(self, server_tls, ca, caplog):
        def submit(_job):
            raise KeyError("a secret")

        answer = ask(GraphqlServer(host="127.0.0.1", port=0, tls=server_tls, submit=submit), ca, QUERY, wire_workflow())

        assert answer["errors"][0]["message"] == "internal error"
        assert "a secret" in caplog.text

    def test_store_that_does_not_answer_is_transient(self, server_tls, ca):
        def submit(_job):
            raise Transient("could not reach the state store", detail="where it lies")

        server = GraphqlServer(host="127.0.0.1", port=0, tls=server_tls, submit=submit)
        url = f"https://localhost:{server.start()}/graphql"

        with pytest.raises(JobDefinitionUnavailable) as caught:
            submit_workflow(url, wire_workflow(), ca=ca)

        server.stop()
        assert "could not reach the state store" in str(caught.value)
        assert "where it lies" not in str(caught.value)

    @pytest.mark.parametrize("answer", ['{"data": null}', "[]", '{"errors": [5]}', '{"errors": [{}]}'])
    def test_answer_that_is_none_is_told_with_its_text(self, monkeypatch, answer):
        monkeypatch.setattr(httpx, "post", lambda *_, **__: httpx.Response(200, text=answer))

        with pytest.raises(UnexpectedOutput):
            submit_workflow("https://localhost/graphql", wire_workflow())

    def test_ca_that_cannot_be_read_is_the_operators(self, tmp_path):
        with pytest.raises(ConfigError, match="could not read"):
            submit_workflow("https://localhost/graphql", wire_workflow(), ca=tmp_path / "none")

    def test_port_that_is_taken_is_the_operators(self, grid, server_tls, capfd):
        port = int(grid.url.split(":")[2].split("/")[0])

        with pytest.raises(ConfigError, match="could not listen"):
            GraphqlServer(host="127.0.0.1", port=port, tls=server_tls, submit=lambda _: "x").start()
        with pytest.raises(ConfigError, match="could not listen"):
            SBatchServer(
                grid.address.replace("localhost", "127.0.0.1"),
                server_tls,
                challenge=lambda: b"",
                get_sbatch=lambda _: None,
            ).start()

    def test_certificate_that_is_missing_is_the_operators(self, tmp_path):
        tls = TlsFiles(certificate=tmp_path / "none", key=tmp_path / "none")

        with pytest.raises(ConfigError, match="could not read"):
            GraphqlServer(host="127.0.0.1", port=0, tls=tls, submit=lambda _: "x")
        with pytest.raises(ConfigError, match="could not read"):
            SBatchServer("127.0.0.1:0", tls, challenge=lambda: b"", get_sbatch=lambda _: None).start()

    def test_service_that_is_away_is_transient(self, ca):
        with pytest.raises(JobDefinitionUnavailable):
            submit_workflow("https://localhost:1/graphql", wire_workflow(), ca=ca)


QUERY = "mutation Submit($job: Job!) { submit(job: $job) }"


def post(http, grid, query=QUERY, variables=None):
    return http.post(grid.url, json={"query": query, "variables": variables or {}})


def ask(server, ca, query, job=None):
    """Start a server, ask it once, stop it."""
    url = f"https://localhost:{server.start()}/graphql"
    try:
        with httpx.Client(verify=ssl.create_default_context(cafile=ca), trust_env=False) as http:
            return http.post(url, json={"query": query, "variables": {"job": job}}).json()
    finally:
        server.stop()
