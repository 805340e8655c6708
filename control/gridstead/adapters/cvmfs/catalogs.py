# SPDX-License-Identifier: Apache-2.0
"""Catalogs in which names are looked up, as they lie unpacked in a client's cache."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gridstead.adapters.cvmfs.databases import bound, connect, judged, nested_catalogs, require
from gridstead.domain.cvmfs.objects import ObjectName
from gridstead.domain.cvmfs.tree import (
    Piece,
    Row,
    TreeEntry,
    chunks_of,
    parent_of,
    parse_entry,
    path_key,
    whole_of,
)

PAGES = "PRAGMA cache_size = -256"  # KiB: many catalogs are open at a time
_COLUMNS = "name, mode, size, mtime, uid, gid, hardlinks, flags, hash, symlink"
_ENTRY = f"SELECT {_COLUMNS} FROM catalog WHERE md5path_1 = ? AND md5path_2 = ?"  # noqa: S608 - a constant
_ENTRIES = f"SELECT {_COLUMNS} FROM catalog WHERE parent_1 = ? AND parent_2 = ?"  # noqa: S608 - a constant
_CHUNKS = (
    "SELECT offset, size, hash FROM chunks WHERE md5path_1 = ? AND md5path_2 = ? ORDER BY offset"
)


class SqliteTreeCatalog:
    """Implements port ``TreeCatalog``.

    Args:
        path: Of the database.
        name: Of the object.
    """

    def __init__(self, path: Path, name: ObjectName) -> None:
        self._name = name
        self._database = connect(path, name)
        self._nested: Mapping[str, ObjectName] | None = None
        self._database.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        with judged(name):
            self._database.execute(PAGES)
            require(self._database, name, "catalog", "chunks")

    def entry(self, path: str) -> TreeEntry | None:
        """Return what is at a path."""
        with self._asked() as database:
            row = database.execute(_ENTRY, path_key(path)).fetchone()
        return None if row is None else self._parsed(row, path)

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return what is in a directory."""
        with self._asked() as database:
            rows = database.execute(_ENTRIES, path_key(path)).fetchall()
        found = (parse_entry(Row(*row), path) for row in rows)
        return tuple(one for one in found if one.name and not one.is_hidden)

    def pieces(self, path: str, entry: TreeEntry) -> tuple[Piece, ...]:
        """Return the content of a file."""
        if not entry.is_chunked:
            return whole_of(entry)
        with self._asked() as database:
            return chunks_of(entry, tuple(database.execute(_CHUNKS, path_key(path)).fetchall()))

    def nested(self) -> Mapping[str, ObjectName]:
        """Return the catalogs below it."""
        if self._nested is None:
            with self._asked() as database:
                self._nested = dict(nested_catalogs(database, self._name))
        return self._nested

    def close(self) -> None:
        """Let go of it."""
        self._database.close()

    @contextmanager
    def _asked(self) -> Iterator[sqlite3.Connection]:
        bound(self._database)
        with judged(self._name):
            yield self._database

    def _parsed(self, row: tuple[object, ...], path: str) -> TreeEntry:
        """Return an entry; the root of a nested catalog may or may not know the name that its
        parent gives it.
        """
        return parse_entry(Row(*row)._replace(name=path.rpartition("/")[2]), parent_of(path))
