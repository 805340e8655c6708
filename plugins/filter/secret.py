# SPDX-License-Identifier: Apache-2.0
"""Filter ``holds_secret``: whether a URL in a service's settings may contain a key or a password.

Example:
``{{ {'state_url': 'postgresql+psycopg://grid:password@db/x'} | gridstead.site.holds_secret }}`` is
true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

# The URL of a hosted Ethereum node often contains the customer's API key in its path.
NODE_URL_SETTING = "rpc_url"


def holds_secret(settings: Mapping[str, object]) -> bool:
    """Return whether a URL in the settings may contain a secret.

    This is the case if a URL has user information or a query, if the URL of a node has a path, or
    if a URL cannot be parsed.
    """
    return any(_may_contain_secret(key, value) for key, value in _scalars("", settings))


def _scalars(key: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield each value in nested tables and lists, with its key.

    The key of an item in a list is the key of the list.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _scalars(name, item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(key, item)
    else:
        yield key, value


def _may_contain_secret(key: str, value: object) -> bool:
    if not isinstance(value, str) or "://" not in value:
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return True
    # urlsplit does not find the user information if the password contains a slash.
    has_user = "@" in value
    is_node_with_path = key == NODE_URL_SETTING and parts.path not in {"", "/"}
    return has_user or bool(parts.query) or is_node_with_path


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"holds_secret": holds_secret}
