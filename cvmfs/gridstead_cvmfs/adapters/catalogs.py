# SPDX-License-Identifier: Apache-2.0
"""Catalogs in a client's cache, which are decompressed and are queried by path."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gridstead_cvmfs.adapters.databases import (
    connect,
    limit_queries,
    nested_catalogs,
    require_tables,
    sqlite_errors_translated,
)
from gridstead_cvmfs.domain.objects import ObjectName
from gridstead_cvmfs.domain.tree import (
    FileChunk,
    Row,
    TreeEntry,
    chunks_of_file,
    parent_of,
    parse_entry,
    path_key,
    single_chunk,
)

SET_CACHE_SIZE = "PRAGMA cache_size = -256"  # 256 KiB, because many catalogs are open at a time
_SELECT = "SELECT name, mode, size, mtime, uid, gid, hardlinks, flags, hash, symlink FROM catalog"
_SELECT_ENTRY = _SELECT + " WHERE md5path_1 = ? AND md5path_2 = ?"
_SELECT_ENTRIES = _SELECT + " WHERE parent_1 = ? AND parent_2 = ?"
_SELECT_CHUNKS = (
    "SELECT offset, size, hash FROM chunks WHERE md5path_1 = ? AND md5path_2 = ? ORDER BY offset"
)


class SqliteTreeCatalog:
    """A catalog in an SQLite database. Implements port ``TreeCatalog``.

    Args:
        path: The path of the database.
        name: The name of the catalog object.
    """

    def __init__(self, path: Path, name: ObjectName) -> None:
        self._name = name
        self._database = connect(path, name)
        self._nested: Mapping[str, ObjectName] | None = None
        self._database.text_factory = lambda raw_text: raw_text.decode("utf-8", "surrogateescape")
        with sqlite_errors_translated(name):
            self._database.execute(SET_CACHE_SIZE)
            require_tables(self._database, name, "catalog", "chunks")

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path, or None if the catalog has no such entry."""
        with self._query() as database:
            row = database.execute(_SELECT_ENTRY, path_key(path)).fetchone()
        if row is None:
            return None
        return self._parse_row(row, path)

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return the entries of a directory, except hidden entries."""
        with self._query() as database:
            rows = database.execute(_SELECT_ENTRIES, path_key(path)).fetchall()
        entries = []
        for row in rows:
            entry = parse_entry(Row(*row), path)
            if entry.name and not entry.is_hidden:
                entries.append(entry)
        return tuple(entries)

    def chunks(self, path: str, entry: TreeEntry) -> tuple[FileChunk, ...]:
        """Return the chunks of a file, in order."""
        if not entry.is_chunked:
            return single_chunk(entry)
        with self._query() as database:
            rows = database.execute(_SELECT_CHUNKS, path_key(path)).fetchall()
            return chunks_of_file(entry, tuple(rows))

    def nested(self) -> Mapping[str, ObjectName]:
        """Return the names of the nested catalogs, by the path of each catalog's root directory."""
        if self._nested is None:
            with self._query() as database:
                self._nested = dict(nested_catalogs(database, self._name))
        return self._nested

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextmanager
    def _query(self) -> Iterator[sqlite3.Connection]:
        limit_queries(self._database)
        with sqlite_errors_translated(self._name):
            yield self._database

    def _parse_row(self, row: tuple[object, ...], path: str) -> TreeEntry:
        """Return the entry of a row. The name of the entry is the last component of ``path``.

        The name in the row is not used, because it may be empty. Only the parent catalog contains
        the name of a nested catalog's root.
        """
        _, _, name = path.rpartition("/")
        named_row = Row(*row)._replace(name=name)
        return parse_entry(named_row, parent_of(path))
