# SPDX-License-Identifier: Apache-2.0
"""Ports that only a CVMFS client uses: the content cache and catalog look-ups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.tree import FileChunk, TreeEntry


class Content(Protocol):
    """The decompressed content of an object.

    It remains readable until it is closed, even if the cache removes the object.
    """

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from position ``offset``, or fewer at the end of the content."""
        ...

    def close(self) -> None:
        """Release the file that holds the content."""
        ...


class TreeCatalog(Protocol):
    """A catalog for look-ups by path. Every query is limited in time. Not thread-safe.

    Every method except ``close`` may raise RepositoryUntrusted if a row is not valid.
    """

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path. None if there is no entry."""
        ...

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return the entries of a directory, except hidden entries."""
        ...

    def chunks(self, path: str, entry: TreeEntry) -> tuple[FileChunk, ...]:
        """Return the chunks of a file, in order. Empty if the file is empty."""
        ...

    def nested(self) -> Mapping[str, ObjectName]:
        """Return the names of the nested catalogs, by the paths of their root directories."""
        ...

    def close(self) -> None:
        """Release the database that holds the catalog."""
        ...


class ContentCache(Protocol):
    """Decompressed objects of one repository on the local disk, up to a maximum size.

    The least recently used objects are removed first. Catalogs are removed after all other objects.
    Several threads and several processes may call any method.

    Guarantee: a cached object is complete and matches its name, even after a crash.
    """

    def open(self, name: ObjectName) -> Content | None:
        """Return the content of an object. None if the object is not in the cache."""
        ...

    def put(
        self, name: ObjectName, pieces: Iterable[bytes], *, is_compressed: bool, limit: int
    ) -> Content:
        """Add an object to the cache and return its content.

        Args:
            name: The name of the object.
            pieces: The stored bytes of the object.
            is_compressed: Whether the stored bytes are compressed.
            limit: The maximum decompressed size. Unit: bytes.

        Raises:
            RepositoryUntrusted: If the object does not match its name or is larger than the
                limit. Then nothing is cached.
            StorageFull: If the disk is full, or the object is larger than the whole cache.
        """
        ...

    def catalog(self, name: ObjectName) -> TreeCatalog | None:
        """Return a catalog. None if the catalog is not in the cache."""
        ...
