# SPDX-License-Identifier: Apache-2.0
"""Filter ``holds_secret``: whether an address among a service's settings may hold a key or a
password.

Example: ``{{ {'state_url': 'postgresql+psycopg://grid:password@db/scripts'} | holds_secret }}`` is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

# Whoever runs a node for others tells them apart by a key in its path.
NODE = "rpc_url"


def holds_secret(settings: Mapping[str, object]) -> bool:
    """Return whether an address has a user or a query, is a node's and has a path, or cannot be
    read.
    """
    return _holds("", settings)


def _holds(key: str, value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(name, one) for name, one in value.items())
    if isinstance(value, list | tuple):
        return any(_holds(key, one) for one in value)
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return True
    # Passwords may have slashes, so the user need not be where a URL has one.
    return "@" in value or bool(parts.query) or (key == NODE and parts.path not in {"", "/"})


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"holds_secret": holds_secret}
