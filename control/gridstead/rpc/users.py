# SPDX-License-Identifier: Apache-2.0
"""The SshAPI server, which sends the supervisor's public SSH key to login nodes."""

from __future__ import annotations

from collections.abc import Callable

import grpc

from gridstead.proto.supervisor_pb2 import FetchAuthorizedKeysRequest, FetchAuthorizedKeysResponse
from gridstead.proto.supervisor_pb2_grpc import SshAPIServicer, add_SshAPIServicer_to_server
from gridstead.rpc.tls import TlsFiles, add_health, bind, grpc_server

THREADS = 4


class SshKeyServer:
    """Serves SshAPI over TLS. Clients are not authenticated, because a public key is not a secret.

    Args:
        address: ``host:port``.
        tls: The certificate of the server.
        authorized_keys: Returns the key as a line of an authorized_keys file.
    """

    def __init__(self, address: str, tls: TlsFiles, *, authorized_keys: Callable[[], str]) -> None:
        self._server = grpc_server(threads=THREADS)
        servicer = _Servicer(authorized_keys)
        add_SshAPIServicer_to_server(servicer, self._server)  # type: ignore[no-untyped-call]
        add_health(self._server)
        self._address = address
        self._tls = tls

    def start(self) -> int:
        """Start the server and return its port."""
        port = bind(self._server, self._address, self._tls)
        self._server.start()
        return port

    def stop(self) -> None:
        """Stop the server. Calls in progress have one second to finish."""
        self._server.stop(grace=1).wait()


class _Servicer(SshAPIServicer):
    def __init__(self, authorized_keys: Callable[[], str]) -> None:
        self._authorized_keys = authorized_keys

    def FetchAuthorizedKeys(  # noqa: N802 - a name of the protocol
        self, _request: FetchAuthorizedKeysRequest, _context: grpc.ServicerContext
    ) -> FetchAuthorizedKeysResponse:
        return FetchAuthorizedKeysResponse(authorized_keys=self._authorized_keys())
