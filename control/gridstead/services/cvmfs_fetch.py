# SPDX-License-Identifier: Apache-2.0
"""What a client needs, from its cache or else from a server: each object once, however many ask for
it.
"""

from __future__ import annotations

import threading

from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.domain.cvmfs.tree import Piece
from gridstead.errors import RepositoryUntrusted
from gridstead.ports import Content, ContentCache, Upstream

LOCKS = 64  # fetches that do not wait for each other, at most


class Fetcher:
    """Fetches objects into a cache. Any method may be called by several threads.

    Args:
        upstream: The servers.
        cache: Where objects are kept.
        max_catalog_bytes: What a catalog may be, unpacked.
    """

    def __init__(self, upstream: Upstream, cache: ContentCache, *, max_catalog_bytes: int) -> None:
        self._upstream = upstream
        self._cache = cache
        self._max_catalog_bytes = max_catalog_bytes
        self._locks = tuple(threading.Lock() for _ in range(LOCKS))

    def content(self, piece: Piece) -> Content:
        """Return what a piece of a file holds.

        Raises:
            RepositoryUntrusted: It is not what its name says, or not as large as its catalog says.
        """
        content = self._have(piece.name, packed=piece.packed, limit=piece.size)
        if content.size != piece.size:
            content.close()
            detail = f"{content.size} bytes, not {piece.size}"
            raise RepositoryUntrusted(
                f"object {piece.name} is not what its catalog says", detail=detail
            )
        return content

    def catalog(self, name: ObjectName) -> None:
        """Make a catalog be in the cache."""
        self._have(name, packed=True, limit=self._max_catalog_bytes).close()

    def _have(self, name: ObjectName, *, packed: bool, limit: int) -> Content:
        cache = self._cache
        with self._locks[hash(name) % LOCKS]:
            return cache.open(name) or self._upstream.fetch(
                name, lambda pieces: cache.put(name, pieces, packed=packed, limit=limit)
            )
