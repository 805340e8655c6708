# SPDX-License-Identifier: Apache-2.0
"""Certificates and keys, of the files that settings name."""

from __future__ import annotations

from pathlib import Path

from gridstead.config import MutualTls, Tls
from gridstead.errors import ConfigError
from gridstead.rpc.tls import TlsFiles


def to_files(settings: Tls) -> TlsFiles:
    """Return where a server's certificate lies, and the CA of its callers if they must have one
    too.
    """
    client_ca = settings.ca_file if isinstance(settings, MutualTls) else None
    return TlsFiles(
        certificate=settings.certificate_file, key=settings.key_file, client_ca=client_ca
    )


def read_key(path: Path) -> bytes:
    """Return the key of a file, without the line end that an editor leaves.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"cannot read {path}", detail=str(error)) from error


def read_keys(path: Path) -> tuple[bytes, ...]:
    """Return the keys of a file, one a line, in its order; empty lines are none.

    Raises:
        ConfigError: It cannot be read.
    """
    return tuple(line for line in read_key(path).splitlines() if line)
