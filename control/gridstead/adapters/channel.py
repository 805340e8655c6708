# SPDX-License-Identifier: Apache-2.0
"""gRPC channels to our peers: TLS with a pinned CA, and our own certificate where the peer asks for
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from gridstead.errors import ConfigError

_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    (
        "grpc.min_reconnect_backoff_ms",
        2000,
    ),  # what this bounds is one attempt: TLS over a long way takes its time
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),  # a listing of 100,000 jobs
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcPeer:
    """Where a peer listens and how it and we are known.

    Attributes:
        address: ``host:port``.
        ca: PEM of the CA that vouches for the peer; None for the well-known ones.
        certificate: PEM, our certificate; None when the peer asks for none.
        key: PEM, its private key.
    """

    address: str
    ca: Path | None
    certificate: Path | None = None
    key: Path | None = None


def open_channel(peer: GrpcPeer) -> grpc.Channel:
    """Return a channel to the peer; it connects on its first call.

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
