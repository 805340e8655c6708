# SPDX-License-Identifier: Apache-2.0
"""The server of SshAPI, from which login nodes fetch the supervisor's public SSH key."""

from __future__ import annotations

from collections.abc import Callable

import grpc

from gridstead.proto.supervisor_pb2 import FetchAuthorizedKeysRequest, FetchAuthorizedKeysResponse
from gridstead.proto.supervisor_pb2_grpc import SshAPIServicer, add_SshAPIServicer_to_server
from gridstead.rpc.tls import TlsFiles, add_health, bind, grpc_server

THREADS = 4


class SshKeyServer:
    """Serves SshAPI over TLS. It does not authenticate clients, because a public key is no secret.

    Args:
        address: ``host:port``.
        tls: The server's certificate.
        authorized_keys: Returns one line of an authorized_keys file.
    """

    def __init__(self, address: str, tls: TlsFiles, *, authorized_keys: Callable[[], str]) -> None:
        self._server = grpc_server(threads=THREADS)
        add_SshAPIServicer_to_server(_Servicer(authorized_keys), self._server)  # type: ignore[no-untyped-call]
        add_health(self._server)
        self._address = address
        self._tls = tls

    def start(self) -> int:
        """Start the server and return the port."""
        port = bind(self._server, self._address, self._tls)
        self._server.start()
        return port

    def stop(self) -> None:
        """Stop the server; calls in progress have a second to finish."""
        self._server.stop(grace=1).wait()


class _Servicer(SshAPIServicer):
    def __init__(self, authorized_keys: Callable[[], str]) -> None:
        self._authorized_keys = authorized_keys

    def FetchAuthorizedKeys(  # noqa: N802 # the wire's name
        self, _request: FetchAuthorizedKeysRequest, _context: grpc.ServicerContext
    ) -> FetchAuthorizedKeysResponse:
        return FetchAuthorizedKeysResponse(authorized_keys=self._authorized_keys())
