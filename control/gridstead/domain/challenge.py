# SPDX-License-Identifier: Apache-2.0
"""The number that a provider signs: given out without being remembered, good once and for minutes.

A nonce is 16 bytes: when it was given, chance, and an HMAC over both and the address that it is
for. So every instance of the service that has the key knows the nonces of the others, a restart
forgets none, and a flood of questions fills no memory. What has to be kept, until it ends, is which
ones were taken; that is the store's part.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable

NONCE_LIFE_S = 600
MAX_CHALLENGE_BYTES = (
    256  # ours are shorter; what is long may be nested so deeply that parsing it ends the process
)
CHANCE_BYTES = 6

_TIME_BYTES = 4  # good until 2106
_TAG_BYTES = 6
_NONCE_BYTES = _TIME_BYTES + CHANCE_BYTES + _TAG_BYTES  # 16, as the wire has it


def make_challenge(key: bytes, *, now: int, chance: bytes, address: str) -> bytes:
    """Return what has to be signed: JSON with ``message`` and a new ``nonce``.

    Args:
        key: The service's.
        now: Unix seconds.
        chance: Six unpredictable bytes.
        address: The one wallet that may use it, lower case; empty when the caller did not say who
            it is.
    """
    given = now.to_bytes(_TIME_BYTES) + chance
    nonce = base64.b64encode(given + _tag(key, given, address)).decode()
    return json.dumps({"message": "login", "nonce": nonce}).encode()


def nonce_of(challenge: bytes) -> str:
    """Return the nonce in a challenge, an empty text if it is none."""
    if len(challenge) > MAX_CHALLENGE_BYTES:
        return ""
    try:
        content = json.loads(challenge)
    except (ValueError, RecursionError):
        return ""
    nonce = content.get("nonce") if isinstance(content, dict) else None
    return nonce if isinstance(nonce, str) else ""


def nonce_end(keys: Iterable[bytes], nonce: str, *, address: str) -> int | None:
    """Return the last second (Unix) of a nonce that one of the keys made for this address or for
    any; else None.
    """
    try:
        content = base64.b64decode(nonce, validate=True)
    except ValueError:
        return None
    if len(content) != _NONCE_BYTES or base64.b64encode(content).decode() != nonce:
        return None
    given, tag = content[:-_TAG_BYTES], content[-_TAG_BYTES:]
    tags = [_tag(key, given, wallet) for key in keys for wallet in (address, "")]
    if not any(hmac.compare_digest(tag, one) for one in tags):
        return None
    return int.from_bytes(given[:_TIME_BYTES]) + NONCE_LIFE_S


def _tag(key: bytes, given: bytes, address: str) -> bytes:
    return hmac.digest(key, b"gridstead challenge" + given + address.encode(), hashlib.sha256)[
        :_TAG_BYTES
    ]
