# SPDX-License-Identifier: Apache-2.0
"""Filter ``cvmfs_key_files``: where public keys lie.

Example: ``{{ ['-----BEGIN PUBLIC KEY-----…'] | cvmfs_key_files('/etc/gridstead/cvmfs') }}`` is
``['/etc/gridstead/cvmfs/5d41402abc4b.pub']``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

DIGITS = 12


def cvmfs_key_files(keys: Iterable[str], folder: str) -> list[str]:
    """Return a file for each key, named by its content, whatever white space is around it."""
    return [
        f"{folder}/{hashlib.sha256(key.strip().encode()).hexdigest()[:DIGITS]}.pub" for key in keys
    ]


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"cvmfs_key_files": cvmfs_key_files}
