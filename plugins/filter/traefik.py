# SPDX-License-Identifier: Apache-2.0
"""Filter ``traefik_rule``: the rule that matches the requests of a route.

Example: ``{{ {'hosts': ['a.example'], 'paths': ['/x', '/y/']} | gridstead.site.traefik_rule }}`` is
``(Host(`a.example`)) && (Path(`/x`) || PathPrefix(`/y/`))``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Requests of gRPC-web, and the requests that a browser sends before them (CORS preflight).
GRPC_WEB = "HeaderRegexp(`Content-Type`, `^application/grpc-web`) || Method(`OPTIONS`)"


def traefik_rule(route: Mapping[str, Any]) -> str:
    """Return a rule for hosts and paths, and for the content type of a route of kind grpc-web.

    A path that ends with a slash matches all paths that begin with it. A route without paths
    matches every path.
    """
    hosts = " || ".join(f"Host(`{host}`)" for host in route["hosts"])
    matchers = []
    for path in route.get("paths") or []:
        kind = "PathPrefix" if path.endswith("/") else "Path"
        matchers.append(f"{kind}(`{path}`)")
    conditions = [hosts]
    if matchers:
        conditions.append(" || ".join(matchers))
    if route.get("kind") == "grpc-web":
        conditions.append(GRPC_WEB)
    if len(conditions) == 1:
        return hosts
    return " && ".join(f"({condition})" for condition in conditions)


class FilterModule:
    """The filters of this file. Ansible requires this class name."""

    def filters(self) -> dict[str, object]:
        """Return the filters of this file by name."""
        return {"traefik_rule": traefik_rule}
