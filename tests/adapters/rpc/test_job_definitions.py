# SPDX-License-Identifier: Apache-2.0
"""The Job Definition service on real sockets: its two servers, our two clients, and callers that
mean no good.
"""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import ip_network
from types import SimpleNamespace

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.certificates import Authority
from tests.fakes.definitions import (
    Wallet,
    matched_job,
    wire_workflow,
)

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.job_definitions import JobDefinitionClient, ProviderWallet
from gridstead.domain.job_definition import ScriptAnswer
from gridstead.errors import (
    ConfigError,
    InvalidInput,
    JobDefinitionUnavailable,
    NotAllowed,
    ScriptUnavailable,
    UnexpectedOutput,
)
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, GetSBatchRequest
from gridstead.proto.sbatchapi_pb2_grpc import AuthAPIStub, SBatchAPIStub
from gridstead.rpc.job_definitions import SBatchServer
from gridstead.rpc.peer_limit import PeerLimit

CUSTOMER = "0x" + "c0" * 20
KEY = b"k" * 32


@pytest.fixture
def wallet():
    return Wallet()


@pytest.fixture
def client(grid, ca, wallet):
    client = JobDefinitionClient(
        GrpcPeer(address=grid.address, ca=ca),
        ProviderWallet(address=wallet.address, sign=wallet.sign),
        logger_ca_file="/etc/ca.crt",
    )
    yield client
    client.close()


def match(grid, wallet, **workflow):
    """Submit a workflow and give its job to the wallet."""
    script_id = grid.service.submit(wire_workflow(**workflow), "", lambda _: None)
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

    def test_refusal_of_another_providers_script_may_pass(self, grid, client):
        job = match(grid, Wallet())

        with pytest.raises(JobDefinitionUnavailable, match="UNAUTHENTICATED"):
            client.fetch(job)

    @pytest.mark.parametrize(
        ("error", "status"), [(NotAllowed, "UNAUTHENTICATED"), (InvalidInput, "INVALID_ARGUMENT")]
    )
    def test_refusal_fails_no_job(self, grid, client, wallet, error, status):
        job = match(grid, wallet)

        def refuse(_):
            raise error("not now")

        service, grid.service = (
            grid.service,
            SimpleNamespace(challenge=grid.service.challenge, get_sbatch=refuse),
        )

        with pytest.raises(JobDefinitionUnavailable, match=status):
            client.fetch(job)

        grid.service = service

    def test_script_that_does_not_exist_is_refused(self, grid, client, wallet):
        match(grid, wallet)
        grid.ledger.job = job = matched_job(CUSTOMER, wallet.address, "nothing")

        with pytest.raises(ScriptUnavailable, match="NOT_FOUND"):
            client.fetch(job)

    def test_secret_that_is_no_text_breaks_the_format(self, grid, client, wallet):
        job = match(grid, wallet)
        answer = ScriptAnswer(
            script="#!/bin/sh\n", logger_url="", secrets={"GRIDSTEAD_LOG_TOKEN": b"a\xff"}
        )
        service, grid.service = (
            grid.service,
            SimpleNamespace(challenge=grid.service.challenge, get_sbatch=lambda _: answer),
        )

        with pytest.raises(UnexpectedOutput, match="GRIDSTEAD_LOG_TOKEN") as caught:
            client.fetch(job)

        assert "xff" not in str(caught.value)
        grid.service = service

    def test_chain_that_does_not_answer_is_transient(self, grid, client, wallet):
        job = match(grid, wallet)
        grid.ledger.down = True

        with pytest.raises(JobDefinitionUnavailable, match="INTERNAL"):
            client.fetch(job)

        grid.ledger.down = False

    @pytest.mark.parametrize(
        ("key", "expected_signs"), [(KEY, 1), (b"another key, 32 bytes or more...", 2)]
    )
    def test_restart_between_challenge_and_answer_is_not_seen(
        self, grid, client, wallet, key, expected_signs, monkeypatch
    ):
        """One with another key knows none of the challenges that were given before; then the client
        asks again.
        """
        job = match(grid, wallet)
        signs = 0

        def sign(challenge):
            nonlocal signs
            signs += 1
            if signs == 1:
                monkeypatch.setattr(grid, "service", grid.new_service(key))
            return wallet.sign(challenge)

        client._wallet = replace(client._wallet, sign=sign)

        assert client.fetch(job).text
        assert signs == expected_signs

    def test_service_that_is_away_is_transient(self, ca, wallet):
        client = JobDefinitionClient(
            GrpcPeer(address="localhost:1", ca=ca),
            ProviderWallet(address=wallet.address, sign=wallet.sign),
        )

        with pytest.raises(JobDefinitionUnavailable):
            client.fetch(matched_job(CUSTOMER, wallet.address, "x"))

        client.close()

    def test_service_of_another_ca_is_not_trusted(self, grid, tmp_path, wallet):
        stranger = Authority(tmp_path, name="stranger")
        client = JobDefinitionClient(
            GrpcPeer(address=grid.address, ca=stranger.certificate),
            ProviderWallet(address=wallet.address, sign=wallet.sign),
        )

        with pytest.raises(JobDefinitionUnavailable):
            client.fetch(match(grid, wallet))

        client.close()

    def test_ca_that_cannot_be_read_is_the_operators(self, tmp_path):
        with pytest.raises(ConfigError, match="could not read"):
            open_channel(GrpcPeer(address="localhost:1", ca=tmp_path / "none"))


class TestWire:
    """GetSBatch as others may send it."""

    @pytest.fixture
    def stubs(self, grid, ca):
        channel = open_channel(GrpcPeer(address=grid.address, ca=ca))
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

    def test_challenge_for_one_wallet_is_not_anothers(self, stubs, request_, wallet):
        asked = ChallengeRequest(provider_address=b"\x01" * 20)
        request_.challenge = stubs[0].Challenge(asked).challenge
        request_.signed_challenge = wallet.sign(request_.challenge)

        assert status_of(stubs, request_) is grpc.StatusCode.UNAUTHENTICATED

    def test_health_is_told_and_the_interface_is_not(self, grid, ca):
        with open_channel(GrpcPeer(address=grid.address, ca=ca)) as channel:
            health = HealthStub(channel).Check(HealthCheckRequest())
            with pytest.raises(grpc.RpcError) as caught:
                list(
                    channel.stream_stream(
                        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
                    )(iter([b""]))
                )

        assert health.status == HealthCheckResponse.SERVING
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    def test_challenge_for_no_address_is_refused(self, stubs):
        with pytest.raises(grpc.RpcError) as caught:
            stubs[0].Challenge(ChallengeRequest(provider_address=b"\x01"))

        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_caller_that_asks_too_often_is_told_so(self, server_tls, ca):
        limit = PeerLimit(per_s=0.001, burst=1, what="calls")
        server = SBatchServer(
            "127.0.0.1:0",
            server_tls,
            challenge=lambda _: b"x",
            get_sbatch=lambda _: None,
            calls=limit,
        )
        with open_channel(GrpcPeer(address=f"localhost:{server.start()}", ca=ca)) as channel:
            stubs = AuthAPIStub(channel), SBatchAPIStub(channel)
            stubs[0].Challenge(ChallengeRequest())

            assert status_of(stubs, GetSBatchRequest()) is grpc.StatusCode.RESOURCE_EXHAUSTED

        server.stop()

    def test_callers_behind_a_proxy_of_ours_are_told_apart(self, server_tls, ca):
        limit = PeerLimit(per_s=0.001, burst=1, what="calls", proxies=(ip_network("127.0.0.0/8"),))
        server = SBatchServer(
            "127.0.0.1:0",
            server_tls,
            challenge=lambda _: b"x",
            get_sbatch=lambda _: None,
            calls=limit,
        )
        with open_channel(GrpcPeer(address=f"localhost:{server.start()}", ca=ca)) as channel:

            def ask(who):
                return AuthAPIStub(channel).Challenge(
                    ChallengeRequest(), metadata=[("x-forwarded-for", who)]
                )

            ask("198.51.100.7")
            ask("198.51.100.8")
            with pytest.raises(grpc.RpcError) as caught:
                ask("198.51.100.7")

        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        server.stop()

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

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.binary(max_size=300))
    def test_any_bytes_get_a_status_and_the_service_lives(self, stubs, grid, ca, data):
        channel = open_channel(GrpcPeer(address=grid.address, ca=ca))
        raw = channel.unary_unary("/sbatchapi.v1alpha1.SBatchAPI/GetSBatch")

        with channel, pytest.raises(grpc.RpcError) as caught:
            raw(data)

        assert caught.value.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)


def status_of(stubs, request):
    with pytest.raises(grpc.RpcError) as caught:
        stubs[1].GetSBatch(request)
    return caught.value.code()
