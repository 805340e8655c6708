# SPDX-License-Identifier: Apache-2.0
"""The supervisor's ssh keys on a login host: asked for over SshAPI, kept in a file that sshd's
command reads.
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
# Options before a key would be rights on this host, so only plain keys pass.
_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( [\w@.+-]*)?"
)


def parse_keys(text: str) -> tuple[str, ...]:
    """Return the plain public keys of an authorized_keys text, at least one.

    Raises:
        UnexpectedOutput: A line is something else, or there is none.
    """
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines or any(_KEY.fullmatch(line) is None for line in lines):
        raise UnexpectedOutput("SshAPI.FetchAuthorizedKeys", text[:500])
    return lines


def fetch_keys(peer: GrpcPeer) -> tuple[str, ...]:
    """Return the public keys that the supervisor logs in with.

    Raises:
        SupervisorUnavailable: It did not answer.
        UnexpectedOutput: It answered something else than keys.
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


def keep_keys(keys: tuple[str, ...], file: Path) -> bool:
    """Make a file hold these keys, one per line, and return whether it was different; a reader
    never sees half of it.

    Raises:
        ConfigError: It cannot be written; it is as it was.
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
