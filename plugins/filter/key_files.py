# SPDX-License-Identifier: Apache-2.0
"""Filter ``cvmfs_key_files``: the paths of public key files.

Example:
``{{ ['-----BEGIN PUBLIC KEY-----…'] | gridstead.site.cvmfs_key_files('/etc/cvmfs/keys') }}`` is
``['/etc/cvmfs/keys/5d41402abc4b.pub']``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

DIGITS = 12


def cvmfs_key_files(keys: Iterable[str], folder: str) -> list[str]:
    """Return the path of each key. The file name is a hash of the key without surrounding space."""
    return [f"{folder}/{_digest(key)}.pub" for key in keys]


def _digest(key: str) -> str:
    return hashlib.sha256(key.strip().encode()).hexdigest()[:DIGITS]


class FilterModule:
    """The filters that Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters by name."""
        return {"cvmfs_key_files": cvmfs_key_files}
