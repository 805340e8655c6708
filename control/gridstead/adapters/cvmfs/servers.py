# SPDX-License-Identifier: Apache-2.0
"""Several servers of one repository, in the order in which they are asked.

Rule: one that did not answer is not asked again for a while, so that readers do not wait for it one
    by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from gridstead.adapters.cvmfs.upstream import HttpUpstream
from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.errors import (
    GridsteadError,
    RepositoryIncomplete,
    RepositoryUnavailable,
    RepositoryUntrusted,
)

REST_S = 5.0

T = TypeVar("T")


class Servers:
    """Implements port ``Upstream``.

    Attributes:
        each: The servers.

    Args:
        servers: At least one.
        monotonic: Seconds that never go back.
    """

    def __init__(self, servers: Iterable[HttpUpstream], *, monotonic: Callable[[], float]) -> None:
        self.each = tuple(servers)
        self._monotonic = monotonic
        self._resting: dict[HttpUpstream, float] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the connections."""
        for server in self.each:
            server.close()

    def file(self, path: str) -> bytes:
        """Return a small file of the first server that has it."""
        return self._ask(lambda server: server.file(path))

    def fetch(self, name: ObjectName, take: Callable[[Iterable[bytes]], T]) -> T:
        """Give an object's bytes to what takes them, from the first server that has it as it should
        be.
        """
        return self._ask(lambda server: server.fetch(name, take))

    def _ask(self, question: Callable[[HttpUpstream], T]) -> T:
        failures: list[GridsteadError] = []
        for server in self._awake():
            try:
                return question(server)
            except RepositoryUnavailable as error:
                with self._lock:
                    self._resting[server] = self._monotonic() + REST_S
                failures.append(error)
            except (RepositoryIncomplete, RepositoryUntrusted) as error:
                failures.append(error)
        if failures:
            raise failures[-1]
        raise RepositoryUnavailable(
            "no server of the repository answers", detail=f"none did in the last {REST_S:g} s"
        )

    def _awake(self) -> tuple[HttpUpstream, ...]:
        now = self._monotonic()
        with self._lock:
            return tuple(one for one in self.each if self._resting.get(one, now) <= now)
