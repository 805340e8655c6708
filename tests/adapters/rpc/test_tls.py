# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS: the certificates and the names of callers that a server accepts."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest
from tests.fakes.certificates import Authority

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.proto.sbatchapi_pb2 import ChallengeRequest, ChallengeResponse
from gridstead.proto.sbatchapi_pb2_grpc import (
    AuthAPIServicer,
    AuthAPIStub,
    add_AuthAPIServicer_to_server,
)
from gridstead.rpc.tls import AllowedNames, add_health, bind, grpc_server, peer_name


class EchoName(AuthAPIServicer):
    """Answers with the name in the caller's certificate."""

    def Challenge(self, request, context):  # noqa: N802
        return ChallengeResponse(challenge=peer_name(context).encode())


@pytest.fixture(scope="module")
def address(authority, server_tls):
    """Yield the address of a server that accepts only callers with the name ``supervisor``."""
    server = grpc_server(threads=2, interceptors=[AllowedNames(["supervisor"])])
    add_AuthAPIServicer_to_server(EchoName(), server)
    add_health(server)
    port = bind(server, "127.0.0.1:0", replace(server_tls, client_ca=authority.certificate))
    server.start()
    yield f"localhost:{port}"
    server.stop(0).wait()


def call(address, authority, client_tls=None):
    """Call the server, with or without a client certificate, and return the caller's name."""
    peer = GrpcPeer(address=address, ca=authority.certificate)
    if client_tls:
        peer = replace(peer, certificate=client_tls.certificate, key=client_tls.key)
    with open_channel(peer) as channel:
        return AuthAPIStub(channel).Challenge(ChallengeRequest(), timeout=10).challenge


def refusal_status(*arguments):
    """Return the status of a call that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    return caught.value.code()


def test_caller_with_an_allowed_name_is_accepted(address, authority):
    assert call(address, authority, authority.issue("supervisor")) == b"supervisor"


def test_caller_with_another_name_is_refused(address, authority):
    assert (
        refusal_status(address, authority, authority.issue("login"))
        is grpc.StatusCode.PERMISSION_DENIED
    )


def test_caller_without_a_certificate_is_refused(address, authority):
    assert refusal_status(address, authority) is grpc.StatusCode.UNAVAILABLE


def test_caller_with_a_certificate_of_another_ca_is_refused(address, authority, tmp_path):
    untrusted_certificate = Authority(tmp_path, name="other-ca").issue("supervisor")

    assert refusal_status(address, authority, untrusted_certificate) is grpc.StatusCode.UNAVAILABLE


def test_unknown_method_is_unimplemented(address, authority):
    client_tls = authority.issue("supervisor")
    peer = GrpcPeer(
        address=address,
        ca=authority.certificate,
        certificate=client_tls.certificate,
        key=client_tls.key,
    )

    with open_channel(peer) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/nothing/Here")(b"", timeout=10)

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
