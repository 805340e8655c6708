# SPDX-License-Identifier: Apache-2.0
"""Creates and verifies the nonces that a provider signs. A nonce is valid once, for ten minutes.

The service does not store the nonces that it creates, so many requests do not fill its memory. A
nonce is 16 bytes: the time of its creation, random bytes, and an HMAC over both and the address
that may use the nonce. All instances of the service with the same key accept the nonce, even after
a restart. Used nonces are stored until they expire (``UsedNonces``).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable
from itertools import product

NONCE_LIFE_S = 600
# Real challenges are shorter. Longer text is not parsed: deep nesting could crash the process.
MAX_CHALLENGE_BYTES = 256
RANDOM_BYTES = 6
ANY_ADDRESS = ""  # any wallet may use a nonce with this address

_TIME_BYTES = 4  # sufficient until 2106
_TAG_BYTES = 6
_NONCE_BYTES = _TIME_BYTES + RANDOM_BYTES + _TAG_BYTES  # 16, as the wire format requires


def make_challenge(key: bytes, *, now: int, random_bytes: bytes, address: str) -> bytes:
    """Return a challenge to sign: JSON with ``message`` and a new ``nonce``.

    Args:
        key: The key of the service.
        now: Unix seconds.
        random_bytes: Six unpredictable bytes.
        address: The wallet that may use the nonce, lower case. Empty for any wallet.
    """
    content = now.to_bytes(_TIME_BYTES) + random_bytes
    nonce = base64.b64encode(content + _tag(key, content, address)).decode()
    return json.dumps({"message": "login", "nonce": nonce}).encode()


def nonce_of(challenge: bytes) -> str:
    """Return the nonce in a challenge. Empty if the challenge is malformed."""
    if len(challenge) > MAX_CHALLENGE_BYTES:
        return ""
    try:
        content = json.loads(challenge)
    except (ValueError, RecursionError):
        return ""
    nonce = content.get("nonce") if isinstance(content, dict) else None
    return nonce if isinstance(nonce, str) else ""


def nonce_expiry(keys: Iterable[bytes], nonce: str, *, address: str) -> int | None:
    """Return the last second in which a nonce is valid, in Unix seconds.

    Returns None if none of the keys created the nonce for this address or for any address.
    """
    try:
        decoded_nonce = base64.b64decode(nonce, validate=True)
    except ValueError:
        return None
    if len(decoded_nonce) != _NONCE_BYTES or base64.b64encode(decoded_nonce).decode() != nonce:
        return None
    content, tag = decoded_nonce[:-_TAG_BYTES], decoded_nonce[-_TAG_BYTES:]
    allowed_addresses = (address, ANY_ADDRESS)
    for key, allowed_address in product(keys, allowed_addresses):
        if hmac.compare_digest(tag, _tag(key, content, allowed_address)):
            return int.from_bytes(content[:_TIME_BYTES]) + NONCE_LIFE_S
    return None


def _tag(key: bytes, content: bytes, address: str) -> bytes:
    message = b"gridstead challenge" + content + address.encode()
    return hmac.digest(key, message, hashlib.sha256)[:_TAG_BYTES]
