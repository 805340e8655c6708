# SPDX-License-Identifier: Apache-2.0
"""Who may write and read a job's output.

A writer holds the job's *write token*, which the Job Definition service hands to the provider with
the script; the logger checks it with the same key and asks nobody. The token is for one job (so for
one edition of a log), one owner, and ends. A reader signs a text with the owner's wallet; the text
holds the purpose and the time, so a signature is good for one purpose and for minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from gridstead.domain.ids import is_address
from gridstead.domain.log import LogId, is_log_identity, is_log_name
from gridstead.errors import ConfigError

MAX_AGE_S = 300
MIN_KEY_BYTES = 32
TOKEN_GRACE_S = (
    30 * 24 * 3600
)  # beyond the paid time: for waits in queues, and for time bought later

LONGEST_TOKEN_S = 366 * 24 * 3600

_FIRST_MILLISECONDS = 10**11  # seconds reach this in the year 5138, milliseconds did in 1973
_TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9]{1,12})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePermit:
    """The right to write a log until a time (Unix seconds, the last good one)."""

    log: LogId
    expires_at: int


def check_key(key: bytes) -> None:
    """Return if the key is fit to make tokens or to seal logs.

    Raises:
        ConfigError: If it is too short.
    """
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            "the logger's key is too short", hint=f"Use at least {MIN_KEY_BYTES} bytes."
        )


def token_end(now: int, *, paid_s: int) -> int:
    """Return the last second (Unix) of the token of a job that may run so many paid seconds."""
    return now + min(paid_s + TOKEN_GRACE_S, LONGEST_TOKEN_S)


def write_token(key: bytes, permit: WritePermit) -> str:
    """Return the token that gives its holder this permit: edition, last second and HMAC-SHA-256.

    Args:
        key: Shared by the Job Definition service and the logger; at least 32 bytes.
        permit: What the holder may do. Its log's names are valid.
    """
    log = permit.log
    assert is_address(log.owner), "an owner is an address in lower case"
    assert is_log_name(log.name), "a log name is checked before"
    assert is_log_identity(log.log_identity), "an edition is made, not given"
    text = f"write:{log.owner}/{log.name}/{log.log_identity}/{permit.expires_at}"
    mac = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"{log.log_identity}.{permit.expires_at}.{mac}"


def parse_token(key: bytes, token: str, *, owner: str, log_name: str) -> WritePermit | None:
    """Return the permit of a token for this owner and name, None if it is not one of ours for them.

    Whether it has ended is left to the caller, who knows the time.
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    log = LogId(owner=owner, name=log_name, log_identity=match[1])
    permit = WritePermit(log=log, expires_at=int(match[2]))
    return permit if hmac.compare_digest(write_token(key, permit), token) else None


def read_text(address: str, log_name: str, timestamp: int) -> str:
    """Return what an owner signs to read a log."""
    return f"read:{address}/{log_name}/{timestamp}"


def watch_text(address: str, timestamp: int) -> str:
    """Return what an owner signs to list its logs."""
    return f"watchList:{address}/{timestamp}"


def is_fresh(timestamp: int, *, now: int) -> bool:
    """Return whether a signed time, in seconds or milliseconds, is at most five minutes from now
    (Unix seconds).
    """
    seconds = timestamp // 1000 if timestamp >= _FIRST_MILLISECONDS else timestamp
    return abs(seconds - now) <= MAX_AGE_S
