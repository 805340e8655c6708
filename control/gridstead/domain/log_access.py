# SPDX-License-Identifier: Apache-2.0
"""Who may write and read a job's output.

A log is (owner, log name): the customer's address and the job's Slurm name. A writer holds the job's *write token*,
which the Job Definition service hands to the provider with the script; the logger checks it with the same key and asks
nobody. A reader signs a text with the owner's wallet; the text holds the time, so a signature is good for minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re

from gridstead.domain.ids import is_address
from gridstead.errors import ConfigError

MAX_AGE_S = 300
MIN_KEY_BYTES = 32

_LOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_FIRST_MILLISECONDS = 10**11  # seconds reach this in the year 5138, milliseconds did in 1973


def is_log_name(text: str) -> bool:
    """Return whether the text can name a log; such a name is also a safe file name."""
    return _LOG_NAME.fullmatch(text) is not None


def check_key(key: bytes) -> None:
    """Return if the key is fit to make tokens.

    Raises:
        ConfigError: If it is too short.
    """
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError("the key for write tokens is too short", hint=f"Use at least {MIN_KEY_BYTES} bytes.")


def write_token(key: bytes, owner: str, log_name: str) -> str:
    """Return the token that lets its holder write this log: HMAC-SHA-256, hexadecimal.

    Args:
        key: Shared by the Job Definition service and the logger; at least 32 bytes.
        owner: Address, lower case.
        log_name: A log name.
    """
    assert is_address(owner), "an owner is an address in lower case"
    assert is_log_name(log_name), "a log name is checked before"
    return hmac.new(key, f"write:{owner}/{log_name}".encode(), hashlib.sha256).hexdigest()


def is_write_token(key: bytes, token: str, owner: str, log_name: str) -> bool:
    """Return whether the token is the one for this log."""
    return hmac.compare_digest(write_token(key, owner, log_name).encode(), token.encode())


def read_text(address: str, log_name: str, timestamp: int) -> str:
    """Return what an owner signs to read a log."""
    return f"read:{address}/{log_name}/{timestamp}"


def watch_text(address: str, timestamp: int) -> str:
    """Return what an owner signs to list its logs."""
    return f"watchList:{address}/{timestamp}"


def is_fresh(timestamp: int, *, now: int) -> bool:
    """Return whether a signed time, in seconds or milliseconds, is at most five minutes from now (Unix seconds)."""
    seconds = timestamp // 1000 if timestamp >= _FIRST_MILLISECONDS else timestamp
    return abs(seconds - now) <= MAX_AGE_S
