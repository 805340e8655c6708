# SPDX-License-Identifier: Apache-2.0
"""Opens gRPC channels over TLS, with a given CA and an optional client certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from gridstead.errors import ConfigError

_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    # gRPC also uses the minimum as the timeout of a connection attempt. The timeout is 2 seconds,
    # because a TLS handshake over a long distance is slow.
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),  # a list of 100,000 jobs
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcPeer:
    """The address of a gRPC server, and the files for TLS connections to the server.

    Attributes:
        address: ``host:port``.
        ca: PEM file of the CA of the peer. None for the CAs of the system.
        certificate: PEM file of the client certificate. None if the peer requires no certificate.
        key: PEM file of the private key of the client certificate.
    """

    address: str
    ca: Path | None
    certificate: Path | None = None
    key: Path | None = None


def open_channel(peer: GrpcPeer) -> grpc.Channel:
    """Return a channel to the peer. The channel connects at the first call.

    Raises:
        ConfigError: If a file cannot be read.
    """
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_read(peer.ca),
        private_key=_read(peer.key),
        certificate_chain=_read(peer.certificate),
    )
    return grpc.secure_channel(peer.address, credentials, options=_OPTIONS)


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"could not read {path}", detail=error.strerror) from error
