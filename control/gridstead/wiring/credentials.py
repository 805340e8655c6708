# SPDX-License-Identifier: Apache-2.0
"""Reads the certificates and keys of the settings."""

from __future__ import annotations

from pathlib import Path

from gridstead.config import MutualTls, Tls
from gridstead.errors import ConfigError
from gridstead.rpc.tls import TlsFiles


def tls_files(settings: Tls) -> TlsFiles:
    """Return the certificate files of a server, and for mutual TLS the CA of its clients."""
    client_ca = settings.ca_file if isinstance(settings, MutualTls) else None
    return TlsFiles(
        certificate=settings.certificate_file, key=settings.key_file, client_ca=client_ca
    )


def read_key(path: Path) -> bytes:
    """Return the key in a file, without trailing line ends.

    Raises:
        ConfigError: If the file cannot be read.
    """
    try:
        return path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys in a file with one key per line, in order. Empty lines are ignored.

    Raises:
        ConfigError: If the file cannot be read.
    """
    return tuple(line for line in read_key(path).splitlines() if line)
