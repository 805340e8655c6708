# SPDX-License-Identifier: Apache-2.0
"""Stored scripts, sealed with AES-256-GCM.

Each has a key of its own, made from a storage key and its id; the seal covers the id too, so a
record that is altered, or put under another id, does not open. There may be several storage keys:
the first seals, all of them open. A key is named by some digits of a hash of it, which stand beside
what it sealed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gridstead.errors import ConfigError, ScriptDamaged

MIN_KEY_BYTES = 32
_NONCE_BYTES = 12
_NAME_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Sealed:
    """A record as it is stored: the name of the key that sealed it, and bytes."""

    key_name: str
    data: bytes


class ScriptSeal:
    """Seals and opens records.

    Args:
        keys: Storage keys, the newest first, at least one, at least 32 bytes each.

    Raises:
        ConfigError: There is none, or one is too short.
    """

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        if not keys or min(map(len, keys)) < MIN_KEY_BYTES:
            raise ConfigError(
                "cannot use the keys of storage_key_file",
                detail=f"{len(keys)} keys, the shortest has {min(map(len, keys), default=0)} bytes",
                hint=f"Put one key of at least {MIN_KEY_BYTES} bytes on each line, the newest first.",
            )
        self._keys = {_name_of(key): key for key in reversed(keys)}
        self.newest = _name_of(keys[0])

    def __repr__(self) -> str:
        return f"ScriptSeal({', '.join(self._keys)})"

    def knows(self, key_name: str) -> bool:
        """Return whether what this key sealed can be opened."""
        return key_name in self._keys

    def close(self, record: str, *, about: str) -> Sealed:
        """Return the record of an id, sealed with the newest key."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = _cipher(self._keys[self.newest], about)
        return Sealed(self.newest, nonce + cipher.encrypt(nonce, record.encode(), about.encode()))

    def open(self, sealed: Sealed, *, about: str) -> str:
        """Return the record of an id.

        Raises:
            ConfigError: The key that sealed it is not here.
            ScriptDamaged: It is not what was stored under this id.
        """
        key = self._keys.get(sealed.key_name)
        if key is None:
            raise unknown_keys([sealed.key_name])
        nonce, data = sealed.data[:_NONCE_BYTES], sealed.data[_NONCE_BYTES:]
        try:
            return _cipher(key, about).decrypt(nonce, data, about.encode()).decode()
        except (InvalidTag, ValueError) as err:
            raise ScriptDamaged(
                f"cannot open script {about}", detail="its stored record is altered"
            ) from err


def unknown_keys(names: list[str]) -> ConfigError:
    """Return the error of an operator who took a key away, or gave a wrong one."""
    return ConfigError(
        "cannot open stored scripts",
        detail=f"they are sealed with key {', '.join(sorted(names))}, which is not in storage_key_file",
        hint="Put the key back, on a line below the newest, until no script needs it; without it they are lost.",
    )


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"gridstead key name" + key).hexdigest()[:_NAME_DIGITS]


def _cipher(key: bytes, about: str) -> AESGCM:
    return AESGCM(hmac.digest(key, b"gridstead script " + about.encode(), hashlib.sha256))
