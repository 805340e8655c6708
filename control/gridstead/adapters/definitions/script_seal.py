# SPDX-License-Identifier: Apache-2.0
"""Seals stored scripts: encrypts and authenticates them with AES-256-GCM.

Each script has its own key, which is derived from a storage key and the script id. The script id is
authenticated too, so a record that was altered or stored under another id cannot be opened. There
may be several storage keys. Records are sealed with the newest storage key and can be opened with
any of them. A sealed record contains the name of its storage key. The name is the start of a hash
of the storage key.
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
class SealedRecord:
    """A sealed record: the name of the storage key, and the sealed bytes."""

    key_name: str
    data: bytes


class ScriptSeal:
    """Seals and opens records.

    Args:
        keys: One or more storage keys of at least 32 bytes, newest first.

    Raises:
        ConfigError: If there is no key, or a key is too short.
    """

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        if not keys or min(map(len, keys)) < MIN_KEY_BYTES:
            shortest = min(map(len, keys), default=0)
            raise ConfigError(
                "invalid keys in storage_key_file",
                detail=f"{len(keys)} keys, the shortest has {shortest} bytes",
                hint=f"Write one key of at least {MIN_KEY_BYTES} bytes a line, newest first.",
            )
        self._keys = {_key_name_of(key): key for key in reversed(keys)}
        self.newest_key_name = _key_name_of(keys[0])

    def __repr__(self) -> str:
        return f"ScriptSeal({', '.join(self._keys)})"

    def has_key(self, key_name: str) -> bool:
        """Return whether the seal has the storage key with this name."""
        return key_name in self._keys

    def seal(self, record: str, *, script_id: str) -> SealedRecord:
        """Seal a script's record with the newest storage key."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = _cipher(self._keys[self.newest_key_name], script_id)
        return SealedRecord(
            self.newest_key_name, nonce + cipher.encrypt(nonce, record.encode(), script_id.encode())
        )

    def open(self, sealed: SealedRecord, *, script_id: str) -> str:
        """Return the record of the script with this id.

        Raises:
            ConfigError: If the seal does not have the record's key.
            ScriptDamaged: If the record was altered or belongs to another id.
        """
        key = self._keys.get(sealed.key_name)
        if key is None:
            raise unknown_keys_error([sealed.key_name])
        nonce, data = sealed.data[:_NONCE_BYTES], sealed.data[_NONCE_BYTES:]
        try:
            return _cipher(key, script_id).decrypt(nonce, data, script_id.encode()).decode()
        except (InvalidTag, ValueError) as err:
            raise ScriptDamaged(
                f"cannot open script {script_id}", detail="the stored record was altered"
            ) from err


def unknown_keys_error(names: list[str]) -> ConfigError:
    """Return the error for records whose keys the operator removed or replaced."""
    return ConfigError(
        "cannot open stored scripts",
        detail=f"they are sealed with key {', '.join(sorted(names))}, not in storage_key_file",
        hint=(
            "Add the key again, on a line below the newest one, until no script needs it. Without"
            " the key these scripts are lost."
        ),
    )


def _key_name_of(key: bytes) -> str:
    return hashlib.sha256(b"gridstead key name" + key).hexdigest()[:_NAME_DIGITS]


def _cipher(key: bytes, script_id: str) -> AESGCM:
    return AESGCM(hmac.digest(key, b"gridstead script " + script_id.encode(), hashlib.sha256))
