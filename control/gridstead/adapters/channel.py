# SPDX-License-Identifier: Apache-2.0
"""gRPC channels: TLS with a pinned CA, and a client certificate if the peer requires one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from gridstead.errors import ConfigError

_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    # The timeout of one attempt: a TLS handshake over a long distance takes time.
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),  # a listing of 100,000 jobs
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcPeer:
    """A peer's address, and the files of the TLS connection.

    Attributes:
        address: ``host:port``.
        ca: PEM file of the peer's CA; None for the system's CAs.
        certificate: PEM file of the client certificate; None if the peer requires none.
        key: PEM file of the client's private key.
    """

    address: str
    ca: Path | None
    certificate: Path | None = None
    key: Path | None = None


def open_channel(peer: GrpcPeer) -> grpc.Channel:
    """Return a channel to the peer; the first call connects it.

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
    except OSError as err:
        raise ConfigError(f"could not read {path}", detail=err.strerror) from err
