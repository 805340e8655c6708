# SPDX-License-Identifier: Apache-2.0
"""Runs `gridstead authorized-keys fetch`."""

from __future__ import annotations

from pathlib import Path

from gridstead.adapters.channel import GrpcPeer
from gridstead.adapters.users.authorized_keys import fetch_keys, write_keys


def fetch(endpoint: str, ca: Path, output: Path) -> bool:
    """Write the supervisor's public keys to a file. Return whether the file changed."""
    supervisor = GrpcPeer(address=endpoint, ca=ca)
    return write_keys(fetch_keys(supervisor), output)
