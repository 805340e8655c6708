# SPDX-License-Identifier: Apache-2.0
"""The servers of one repository. The client queries them in order.

If a server does not answer, the client skips this server for some seconds. The next requests
therefore do not wait for a timeout again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from gridstead.errors import GridsteadError
from gridstead_cvmfs.adapters.upstream import HttpUpstream
from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.errors import RepositoryIncomplete, RepositoryUnavailable, RepositoryUntrusted

RETRY_AFTER_S = 5.0

T = TypeVar("T")


class Servers:
    """Implements port ``Upstream``.

    Attributes:
        servers: The servers, in the order of the queries.

    Args:
        servers: At least one server.
        monotonic: Returns the time of a monotonic clock. Unit: seconds.
    """

    def __init__(self, servers: Iterable[HttpUpstream], *, monotonic: Callable[[], float]) -> None:
        self.servers = tuple(servers)
        self._monotonic = monotonic
        self._retry_at_s: dict[HttpUpstream, float] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections of all servers."""
        for server in self.servers:
            server.close()

    def fetch_file(self, path: str) -> bytes:
        """Return a small file from the first server that has it."""
        return self._query(lambda server: server.fetch_file(path))

    def fetch_object(self, name: ObjectName, consume: Callable[[Iterable[bytes]], T]) -> T:
        """Pass the bytes of an object to ``consume``.

        The bytes come from the first server that returns valid bytes.
        """
        return self._query(lambda server: server.fetch_object(name, consume))

    def _query(self, request: Callable[[HttpUpstream], T]) -> T:
        failures: list[GridsteadError] = []
        for server in self._available_servers():
            try:
                return request(server)
            except RepositoryUnavailable as error:
                with self._lock:
                    self._retry_at_s[server] = self._monotonic() + RETRY_AFTER_S
                failures.append(error)
            except (RepositoryIncomplete, RepositoryUntrusted) as error:
                failures.append(error)
        if failures:
            raise failures[-1]
        raise RepositoryUnavailable(
            "no server of the repository answers",
            detail=f"no server answered in the last {RETRY_AFTER_S:g} s",
        )

    def _available_servers(self) -> list[HttpUpstream]:
        now = self._monotonic()
        with self._lock:
            return [server for server in self.servers if self._retry_at_s.get(server, now) <= now]
