# SPDX-License-Identifier: Apache-2.0
"""A CVMFS client's outside world, beside what a replica has too: its cache, and catalogs to look
names up in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.domain.cvmfs.tree import Piece, TreeEntry


class Content(Protocol):
    """What an object holds, unpacked; stays readable until it is closed, whatever becomes of the
    cache.
    """

    @property
    def size(self) -> int:
        """Return how many bytes it has."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """Return bytes from there on; fewer at the end."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class TreeCatalog(Protocol):
    """A catalog in which names are looked up. Bounded in time, whatever it holds; for one thread at
    a time.

    Every method but ``close`` may raise RepositoryUntrusted: it says what no tree can.
    """

    def entry(self, path: str) -> TreeEntry | None:
        """Return what is at a path; None for nothing."""
        ...

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return what is in a directory, without what listings leave out."""
        ...

    def pieces(self, path: str, entry: TreeEntry) -> tuple[Piece, ...]:
        """Return the content of a file, from first to last; empty for an empty one."""
        ...

    def nested(self) -> Mapping[str, ObjectName]:
        """Return the catalogs below it, by the paths where they begin."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class ContentCache(Protocol):
    """Objects of one repository on the local disk, unpacked; it holds so many bytes and no more.

    Guarantee: what is here is whole, and what its name says; a crash leaves no part of an object.
    What was not used for longest goes first, catalogs last. Any method may be called by several
    threads, and by several processes.
    """

    def open(self, name: ObjectName) -> Content | None:
        """Return what an object holds; None if it is not here."""
        ...

    def put(
        self, name: ObjectName, pieces: Iterable[bytes], *, packed: bool, limit: int
    ) -> Content:
        """Keep an object and return what it holds.

        Args:
            name: Of the object.
            pieces: Of its bytes, as they are stored.
            packed: Whether they are compressed.
            limit: What it may hold, unpacked, bytes.

        Raises:
            RepositoryUntrusted: It is not what its name says, or larger; nothing is kept.
            StorageFull: The disk, or the whole cache, is too small for it.
        """
        ...

    def catalog(self, name: ObjectName) -> TreeCatalog | None:
        """Return a catalog; None if it is not here."""
        ...
