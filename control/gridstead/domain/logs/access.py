# SPDX-License-Identifier: Apache-2.0
"""The rights to write and read a job's output: write tokens and signed requests.

A writer needs the *write token* of the job. The Job Definition service creates the token with a
secret key and sends it to the provider with the script. The logger has the same key and verifies
the token. A token is valid for one log of one owner, and it expires.

A reader signs a text with the owner's wallet. The text contains the purpose and the time, so the
signature is valid for one purpose and for a few minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from gridstead.domain.jobs.ids import is_address
from gridstead.domain.logs.log import LogId, is_log_identity, is_log_name
from gridstead.errors import ConfigError

MAX_SIGNATURE_AGE_S = 300
MIN_KEY_BYTES = 32
# A token is valid for the paid time plus this time, because the job may wait in queues and the
# customer may pay for more time.
TOKEN_GRACE_S = 30 * 24 * 3600
MAX_TOKEN_LIFE_S = 366 * 24 * 3600

# A timestamp from this value on is in milliseconds. In seconds, this value is a time in the year
# 5138.
_MIN_MILLISECONDS = 10**11
_TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9]{1,12})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePermit:
    """The right to write a log until ``expires_at``, the last valid second, in Unix seconds."""

    log: LogId
    expires_at: int


def check_key_length(key: bytes) -> None:
    """Check that a key is long enough to create tokens or to encrypt logs.

    Raises:
        ConfigError: If the key is too short.
    """
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            "the logger's key is too short", hint=f"Use at least {MIN_KEY_BYTES} bytes."
        )


def token_expiry(now: int, *, paid_s: int) -> int:
    """Return when the token of a job expires.

    Units: ``now`` and the result are Unix seconds, ``paid_s`` is seconds.
    """
    return now + min(paid_s + TOKEN_GRACE_S, MAX_TOKEN_LIFE_S)


def make_write_token(key: bytes, permit: WritePermit) -> str:
    """Return the token of a permit: log identity, last valid second and HMAC-SHA-256.

    Args:
        key: The key of the Job Definition service and the logger. At least 32 bytes.
        permit: The rights of the token's holder. Owner, name and identity of the log must be valid.
    """
    log = permit.log
    assert is_address(log.owner), "the owner must be an address in lower case"
    assert is_log_name(log.name), "the caller must check the name of the log"
    assert is_log_identity(log.log_identity), "the log identity must be derived from a job key"
    text = f"write:{log.owner}/{log.name}/{log.log_identity}/{permit.expires_at}"
    mac = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"{log.log_identity}.{permit.expires_at}.{mac}"


def parse_token(key: bytes, token: str, *, owner: str, log_name: str) -> WritePermit | None:
    """Return the permit of a token. Returns None if the token is not valid for this owner and name.

    The caller must check whether the permit has expired.
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    log = LogId(owner=owner, name=log_name, log_identity=match[1])
    permit = WritePermit(log=log, expires_at=int(match[2]))
    return permit if hmac.compare_digest(make_write_token(key, permit), token) else None


def read_request_text(address: str, log_name: str, timestamp: int) -> str:
    """Return the text that an owner signs to read a log."""
    return f"read:{address}/{log_name}/{timestamp}"


def watch_request_text(address: str, timestamp: int) -> str:
    """Return the text that an owner signs to list its logs."""
    return f"watchList:{address}/{timestamp}"


def is_fresh(timestamp: int, *, now: int) -> bool:
    """Return whether a signed time is at most five minutes before or after ``now``.

    Units: ``timestamp`` Unix seconds or milliseconds; ``now`` Unix seconds.
    """
    seconds = timestamp // 1000 if timestamp >= _MIN_MILLISECONDS else timestamp
    return abs(seconds - now) <= MAX_SIGNATURE_AGE_S
