# SPDX-License-Identifier: Apache-2.0
"""The supervisor's SSH keys on a login host.

The keys are fetched over SshAPI and written to a file that sshd's AuthorizedKeysCommand reads.
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
_MODE = 0o644  # public keys; sshd reads them as nobody
# Options before a key would grant rights on this host, so only plain keys are accepted.
_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( [\w@.+-]*)?"
)


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the plain public keys of an authorized_keys text, at least one.

    Raises:
        UnexpectedOutput: If a line is not a plain key, or there is no line.
    """
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines or any(_KEY.fullmatch(line) is None for line in lines):
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
        except grpc.RpcError as err:
            detail = f"{err.code().name}: {err.details()}"
            raise SupervisorUnavailable(
                f"could not fetch keys from {peer.address}", detail=detail
            ) from err
    return parse_keys(answer.authorized_keys)


def write_keys(keys: tuple[str, ...], file: Path) -> bool:
    """Write the keys to a file, one a line, and return whether the content changed.

    The file is replaced atomically.

    Raises:
        ConfigError: If the file cannot be written; it is unchanged.
    """
    content = "".join(f"{key}\n" for key in keys)
    try:
        if file.exists() and file.read_text() == content:
            return False
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=f".{file.name}.", delete=False
        ) as written:
            written.write(content)
            written.flush()
            os.fsync(written.fileno())
            os.fchmod(written.fileno(), _MODE)
        Path(written.name).replace(file)
    except OSError as err:
        raise ConfigError(f"cannot write {file}", detail=str(err)) from err
    return True
