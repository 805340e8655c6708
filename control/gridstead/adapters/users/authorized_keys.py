# SPDX-License-Identifier: Apache-2.0
"""Fetches the supervisor's public SSH keys over SshAPI, and writes them to a file.

The AuthorizedKeysCommand of sshd on a login host reads the file.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import grpc

from gridstead.adapters.channel import GrpcPeer, open_channel
from gridstead.errors import ConfigError, SupervisorUnavailable, UnexpectedOutput
from gridstead.proto.supervisor_pb2 import FetchAuthorizedKeysRequest
from gridstead.proto.supervisor_pb2_grpc import SshAPIStub

_TIMEOUT_S = 10.0
_MODE = 0o644  # Public keys are not secret, and sshd reads them as nobody.
# The pattern allows no options before a key, because options could grant rights on this host.
_KEY_PATTERN = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( [\w@.+-]*)?"
)


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the public keys in the text of an authorized_keys file. At least one is required.

    Raises:
        UnexpectedOutput: If a line is not a key without options, or if there is no line.
    """
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    has_invalid_line = any(_KEY_PATTERN.fullmatch(line) is None for line in lines)
    if not lines or has_invalid_line:
        raise UnexpectedOutput("SshAPI.FetchAuthorizedKeys", text[:500])
    return lines


def fetch_keys(peer: GrpcPeer) -> tuple[str, ...]:
    """Return the public keys of the supervisor.

    Raises:
        SupervisorUnavailable: If the supervisor did not answer.
        UnexpectedOutput: If the answer is not a list of keys.
    """
    with open_channel(peer) as channel:
        stub = SshAPIStub(channel)  # type: ignore[no-untyped-call] # generated
        try:
            answer = stub.FetchAuthorizedKeys(FetchAuthorizedKeysRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            detail = f"{error.code().name}: {error.details()}"
            raise SupervisorUnavailable(
                f"could not fetch keys from {peer.address}", detail=detail
            ) from error
    return parse_keys(answer.authorized_keys)


def write_keys(keys: tuple[str, ...], file: Path) -> bool:
    """Write the keys to a file, one per line. Return whether the content changed.

    The file is replaced atomically.

    Raises:
        ConfigError: If the file cannot be written. The file is then unchanged.
    """
    content = "".join(f"{key}\n" for key in keys)
    try:
        if file.exists() and file.read_text() == content:
            return False
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=f".{file.name}.", delete=False
        ) as new_file:
            new_file.write(content)
            new_file.flush()
            os.fsync(new_file.fileno())
            os.fchmod(new_file.fileno(), _MODE)
        Path(new_file.name).replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}", detail=str(error)) from error
    return True
