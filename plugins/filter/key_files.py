# SPDX-License-Identifier: Apache-2.0
"""Filter ``cvmfs_key_files``: the path of the file for each public key.

Example:
``{{ ['-----BEGIN PUBLIC KEY-----…'] | gridstead.site.cvmfs_key_files('/etc/cvmfs/keys') }}`` is
``['/etc/cvmfs/keys/5d41402abc4b.pub']``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

HASH_DIGITS = 12


def cvmfs_key_files(keys: Iterable[str], folder: str) -> list[str]:
    """Return a path for each key, in order. The file name is the start of the SHA-256 of the key.

    White space around a key is ignored.
    """
    return [f"{folder}/{_digest(key)}.pub" for key in keys]


def _digest(key: str) -> str:
    return hashlib.sha256(key.strip().encode()).hexdigest()[:HASH_DIGITS]


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters by name."""
        return {"cvmfs_key_files": cvmfs_key_files}
