# SPDX-License-Identifier: Apache-2.0
"""Filter ``traefik_rule``: which requests a route takes, as Traefik writes it.

Example: ``{{ {'hosts': ['a.example'], 'paths': ['/x', '/y/']} | traefik_rule }}`` is
``(Host(`a.example`)) && (Path(`/x`) || PathPrefix(`/y/`))``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def traefik_rule(route: Mapping[str, Iterable[str]]) -> str:
    """Return a rule for hosts and paths; a path that ends with a slash is all beneath it, no path
    is every path.
    """
    hosts = " || ".join(f"Host(`{host}`)" for host in route["hosts"])
    paths = " || ".join(
        f"PathPrefix(`{path}`)" if path.endswith("/") else f"Path(`{path}`)"
        for path in route.get("paths") or []
    )
    return f"({hosts}) && ({paths})" if paths else hosts


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"traefik_rule": traefik_rule}
