# SPDX-License-Identifier: Apache-2.0
"""gridstead authorized-keys fetch."""

from __future__ import annotations

from pathlib import Path

from gridstead.adapters.authorized_keys import fetch_keys, write_keys
from gridstead.adapters.channel import GrpcPeer


def fetch(endpoint: str, ca: Path, output: Path) -> bool:
    """Keep the supervisor's public keys in a file and return whether they were others before."""
    return write_keys(fetch_keys(GrpcPeer(address=endpoint, ca=ca)), output)
