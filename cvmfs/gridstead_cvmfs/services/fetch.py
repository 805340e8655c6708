# SPDX-License-Identifier: Apache-2.0
"""Fetches objects into the cache of a client.

Each object is fetched only once, even if several threads need it at the same time.
"""

from __future__ import annotations

import threading

from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.tree import FileChunk
from gridstead_cvmfs.errors import RepositoryUntrusted
from gridstead_cvmfs.ports import Content, ContentCache, Upstream

LOCK_COUNT = 64  # also the maximum number of simultaneous fetches


class Fetcher:
    """Fetches objects into a cache. All methods are thread-safe.

    Args:
        upstream: The servers.
        cache: The content cache.
        max_catalog_bytes: The maximum decompressed size of a catalog.
    """

    def __init__(self, upstream: Upstream, cache: ContentCache, *, max_catalog_bytes: int) -> None:
        self._upstream = upstream
        self._cache = cache
        self._max_catalog_bytes = max_catalog_bytes
        self._locks = tuple(threading.Lock() for _ in range(LOCK_COUNT))

    def content(self, chunk: FileChunk) -> Content:
        """Return the content of a chunk of a file.

        Raises:
            RepositoryUntrusted: If the content does not match the name of its object or the size
                in the catalog.
        """
        content = self._open_or_fetch(
            chunk.name, is_compressed=chunk.is_compressed, limit=chunk.size
        )
        if content.size != chunk.size:
            content.close()
            detail = f"{content.size} bytes, not {chunk.size}"
            raise RepositoryUntrusted(
                f"size of object {chunk.name} does not match its catalog", detail=detail
            )
        return content

    def catalog(self, name: ObjectName) -> None:
        """Fetch a catalog into the cache if the cache does not contain it."""
        self._open_or_fetch(name, is_compressed=True, limit=self._max_catalog_bytes).close()

    def _open_or_fetch(self, name: ObjectName, *, is_compressed: bool, limit: int) -> Content:
        cache = self._cache
        # All threads that need an object use the lock with this index.
        with self._locks[hash(name) % LOCK_COUNT]:
            content = cache.open(name)
            if content is not None:
                return content
            return self._upstream.fetch_object(
                name,
                lambda pieces: cache.put(name, pieces, is_compressed=is_compressed, limit=limit),
            )
