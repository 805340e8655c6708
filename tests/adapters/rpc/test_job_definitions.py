# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of the Job Definition service.

Most tests use our client ``JobDefinitionClient``. Class ``TestOtherClients`` sends requests that
our client would not send.
"""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import ip_network

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.rpc.conftest import new_sbatch_server
from tests.fakes.certificates import Authority
from tests.fakes.definitions import Wallet, matched_job, wire_workflow

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.adapters.definitions.job_definitions import JobDefinitionClient, ProviderWallet
from gridstead.domain.definitions.job_definition import ScriptAnswer
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
from gridstead.rpc.rate_limit import RateLimiter

CUSTOMER = "0x" + "c0" * 20
KEY = b"k" * 32


@pytest.fixture
def wallet():
    return Wallet()


@pytest.fixture
def client(servers, ca, wallet):
    client = JobDefinitionClient(
        GrpcPeer(address=servers.address, ca=ca),
        ProviderWallet(address=wallet.address, sign=wallet.sign),
        logger_ca_file="/etc/ca.crt",
    )
    yield client
    client.close()


def submit_and_match(servers, wallet, **workflow):
    """Submit a workflow, match its job to the wallet, and return the job."""
    script_id = servers.service.submit(wire_workflow(**workflow), "", lambda _: None)
    servers.ledger.job = matched_job(CUSTOMER, wallet.address, script_id)
    return servers.ledger.job


class TestFetch:
    def test_provider_gets_the_script_with_separate_secrets(self, servers, client, wallet):
        job = submit_and_match(servers, wallet, enableLogging=True)

        script = client.fetch(job)

        assert "gridstead-log-writer" in script.text
        assert script.environment["GRIDSTEAD_LOGGER_URL"] == "logger:8445"
        assert script.environment["GRIDSTEAD_LOGGER_CA"] == "/etc/ca.crt"
        assert script.environment["GRIDSTEAD_LOG_OWNER"] == CUSTOMER
        assert script.environment["GRIDSTEAD_LOG_NAME"] == job.id.slurm_job_name
        assert script.environment["GRIDSTEAD_LOG_TOKEN"] not in script.text

    def test_job_without_logging_has_no_secrets(self, servers, client, wallet):
        job = submit_and_match(servers, wallet)

        assert client.fetch(job).environment == {}

    def test_signature_with_recovery_id_0_or_1_is_accepted(self, servers, client, wallet):
        wallet.low_v = True  # Here the recovery id is 0 or 1 instead of 27 or 28.

        assert client.fetch(submit_and_match(servers, wallet)).text.startswith("#!/bin/bash -l\n")

    def test_refusal_of_another_providers_script_is_a_transient_error(self, servers, client):
        job = submit_and_match(servers, Wallet())

        with pytest.raises(JobDefinitionUnavailable, match="UNAUTHENTICATED"):
            client.fetch(job)

    @pytest.mark.parametrize(
        ("error", "status"), [(NotAllowed, "UNAUTHENTICATED"), (InvalidInput, "INVALID_ARGUMENT")]
    )
    def test_every_refusal_by_the_service_is_a_transient_error(
        self, servers, client, wallet, error, status, monkeypatch
    ):
        job = submit_and_match(servers, wallet)

        def refuse(_):
            raise error("not now")

        monkeypatch.setattr(servers.service, "get_sbatch", refuse)

        with pytest.raises(JobDefinitionUnavailable, match=status):
            client.fetch(job)

    def test_missing_script_is_a_final_error(self, servers, client, wallet):
        submit_and_match(servers, wallet)
        job = matched_job(CUSTOMER, wallet.address, "nothing")
        servers.ledger.job = job

        with pytest.raises(ScriptUnavailable, match="NOT_FOUND"):
            client.fetch(job)

    def test_secret_that_is_not_utf_8_raises_unexpected_output(
        self, servers, client, wallet, monkeypatch
    ):
        job = submit_and_match(servers, wallet)
        answer = ScriptAnswer(
            script="#!/bin/sh\n", logger_url="", secrets={"GRIDSTEAD_LOG_TOKEN": b"a\xff"}
        )
        monkeypatch.setattr(servers.service, "get_sbatch", lambda _: answer)

        with pytest.raises(UnexpectedOutput, match="GRIDSTEAD_LOG_TOKEN") as caught:
            client.fetch(job)

        assert "xff" not in str(caught.value)

    def test_unavailable_chain_is_a_transient_error(self, servers, client, wallet):
        job = submit_and_match(servers, wallet)
        servers.ledger.down = True

        with pytest.raises(JobDefinitionUnavailable, match="INTERNAL"):
            client.fetch(job)

        servers.ledger.down = False

    @pytest.mark.parametrize(
        ("key", "signature_count"), [(KEY, 1), (b"another key, 32 bytes or more...", 2)]
    )
    def test_fetch_succeeds_if_the_service_restarts(
        self, servers, client, wallet, key, signature_count, monkeypatch
    ):
        """The service restarts between the challenge and the request for the script.

        With a new key, the service refuses the old challenge, and the client signs a new one.
        """
        job = submit_and_match(servers, wallet)
        challenges = []

        def sign(challenge):
            challenges.append(challenge)
            if len(challenges) == 1:  # the restart
                monkeypatch.setattr(servers, "service", servers.new_service(key))
            return wallet.sign(challenge)

        client._wallet = replace(client._wallet, sign=sign)

        assert client.fetch(job).text
        assert len(challenges) == signature_count

    def test_unreachable_service_is_a_transient_error(self, ca, wallet):
        client = JobDefinitionClient(
            GrpcPeer(address="localhost:1", ca=ca),
            ProviderWallet(address=wallet.address, sign=wallet.sign),
        )

        with pytest.raises(JobDefinitionUnavailable):
            client.fetch(matched_job(CUSTOMER, wallet.address, "x"))

        client.close()

    def test_service_of_another_ca_is_not_trusted(self, servers, tmp_path, wallet):
        other_authority = Authority(tmp_path, name="other-ca")
        client = JobDefinitionClient(
            GrpcPeer(address=servers.address, ca=other_authority.certificate),
            ProviderWallet(address=wallet.address, sign=wallet.sign),
        )

        with pytest.raises(JobDefinitionUnavailable):
            client.fetch(submit_and_match(servers, wallet))

        client.close()

    def test_unreadable_ca_is_a_config_error(self, tmp_path):
        with pytest.raises(ConfigError, match="could not read"):
            open_channel(GrpcPeer(address="localhost:1", ca=tmp_path / "none"))


class Stubs:
    """The generated clients of both services on one channel."""

    def __init__(self, channel):
        self.auth = AuthAPIStub(channel)
        self.sbatch = SBatchAPIStub(channel)


class TestOtherClients:
    """Requests of clients that use the generated stubs or send arbitrary bytes."""

    @pytest.fixture
    def stubs(self, servers, ca):
        with open_channel(GrpcPeer(address=servers.address, ca=ca)) as channel:
            yield Stubs(channel)

    @pytest.fixture
    def script_request(self, servers, wallet, stubs):
        """Return a valid request of an old supervisor, which does not set ``secrets_beside``."""
        job = submit_and_match(servers, wallet, enableLogging=True)
        challenge = stubs.auth.Challenge(ChallengeRequest()).challenge
        return GetSBatchRequest(
            batch_location_hash=job.batch_location_hash,
            signed_challenge=wallet.sign(challenge),
            challenge=challenge,
            provider_address=bytes.fromhex(wallet.address[2:]),
            customer_address=bytes.fromhex(CUSTOMER[2:]),
            job_id=job.id.slurm_job_name,
        )

    def test_challenge_is_json_with_message_and_nonce(self, stubs):
        content = json.loads(stubs.auth.Challenge(ChallengeRequest()).challenge)

        assert content["message"] == "login"
        assert len(content["nonce"]) == 24

    def test_old_supervisor_gets_a_script_without_logging_and_secrets(self, stubs, script_request):
        answer = stubs.sbatch.GetSBatch(script_request)

        assert "gridstead-log-writer" not in answer.sbatch
        assert "logging is off" in answer.sbatch
        assert answer.grid_logger_url == "logger:8445"
        assert not answer.secrets
        assert not answer.log_write_token

    def test_challenge_for_another_wallet_is_refused(self, stubs, script_request, wallet):
        request = ChallengeRequest(provider_address=b"\x01" * 20)
        script_request.challenge = stubs.auth.Challenge(request).challenge
        script_request.signed_challenge = wallet.sign(script_request.challenge)

        assert status_of(stubs, script_request) is grpc.StatusCode.UNAUTHENTICATED

    def test_health_is_served_and_reflection_is_not(self, servers, ca):
        with open_channel(GrpcPeer(address=servers.address, ca=ca)) as channel:
            health = HealthStub(channel).Check(HealthCheckRequest())
            reflect = channel.stream_stream(
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            )
            with pytest.raises(grpc.RpcError) as caught:
                list(reflect(iter([b""])))

        assert health.status == HealthCheckResponse.SERVING
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    def test_challenge_for_an_invalid_address_is_refused(self, stubs):
        with pytest.raises(grpc.RpcError) as caught:
            stubs.auth.Challenge(ChallengeRequest(provider_address=b"\x01"))

        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    def test_caller_above_the_call_rate_is_refused(self, server_tls, ca):
        limit = RateLimiter(per_s=0.001, burst=1, subject="calls")
        server = new_sbatch_server(server_tls, call_limiter=limit)
        with open_channel(GrpcPeer(address=f"localhost:{server.start()}", ca=ca)) as channel:
            stubs = Stubs(channel)
            stubs.auth.Challenge(ChallengeRequest())

            assert status_of(stubs, GetSBatchRequest()) is grpc.StatusCode.RESOURCE_EXHAUSTED

        server.stop()

    def test_callers_behind_a_known_proxy_have_separate_limits(self, server_tls, ca):
        limit = RateLimiter(
            per_s=0.001, burst=1, subject="calls", proxies=(ip_network("127.0.0.0/8"),)
        )
        server = new_sbatch_server(server_tls, call_limiter=limit)
        with open_channel(GrpcPeer(address=f"localhost:{server.start()}", ca=ca)) as channel:

            def call_from(address):
                metadata = [("x-forwarded-for", address)]
                AuthAPIStub(channel).Challenge(ChallengeRequest(), metadata=metadata)

            call_from("198.51.100.7")
            call_from("198.51.100.8")
            with pytest.raises(grpc.RpcError) as caught:
                call_from("198.51.100.7")

        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        server.stop()

    def test_challenge_cannot_be_used_twice(self, stubs, script_request):
        stubs.sbatch.GetSBatch(script_request)

        assert status_of(stubs, script_request) is grpc.StatusCode.UNAUTHENTICATED

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
            ({"job_id": "0x" + "ff" * 32}, "INTERNAL"),  # unknown; the chain may have it soon
            ({"batch_location_hash": ""}, "NOT_FOUND"),
            ({"batch_location_hash": "../../etc/passwd"}, "NOT_FOUND"),
        ],
    )
    def test_request_with_an_invalid_field_gets_an_error_status(
        self, stubs, script_request, change, code
    ):
        for name, value in change.items():
            setattr(script_request, name, value)

        assert status_of(stubs, script_request).name == code

    def test_job_id_in_upper_case_is_accepted(self, stubs, script_request):
        script_request.job_id = "0x" + script_request.job_id[2:].upper()

        assert stubs.sbatch.GetSBatch(script_request).sbatch

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.binary(max_size=300))
    def test_arbitrary_bytes_get_a_status_of_the_service(self, stubs, servers, ca, data):
        with open_channel(GrpcPeer(address=servers.address, ca=ca)) as channel:
            get_sbatch = channel.unary_unary("/sbatchapi.v1alpha1.SBatchAPI/GetSBatch")
            with pytest.raises(grpc.RpcError) as caught:
                get_sbatch(data)

        assert caught.value.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)


def status_of(stubs, request):
    """Return the status of a GetSBatch request that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        stubs.sbatch.GetSBatch(request)
    return caught.value.code()
