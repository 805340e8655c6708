# SPDX-License-Identifier: Apache-2.0
"""Catalogs and histories, which are compressed SQLite files of a publisher.

The files may be harmful, so three rules apply. Rule 1: the decompressed size of a file is limited.
Rule 2: tables are read, but views are never read. Rule 3: the number of steps of a query is
limited.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gridstead_cvmfs.adapters.disk import TEMPORARY_SUFFIX, write_errors_translated
from gridstead_cvmfs.adapters.objects import DiskObjects, blocks
from gridstead_cvmfs.domain.objects import (
    ObjectKind,
    ObjectName,
    decompress_pieces,
    from_digest,
    parse_hash,
)
from gridstead_cvmfs.errors import RepositoryIncomplete, RepositoryUntrusted

STEPS_PER_PROGRESS_CALL = 1_000_000  # steps of SQLite's virtual machine
MAX_PROGRESS_CALLS = 5_000  # together 5 * 10^9 steps, which take several minutes
MAX_TAGS = 100_000

# Flags of a row: 4 is a file, 128 is a file whose content is not in the repository. Bits 8 to 10
# are the hash algorithm.
_FILES = """SELECT hash, (flags >> 8) & 7 FROM catalog
            WHERE hash IS NOT NULL AND flags & 4 AND NOT flags & 128"""
_CHUNKS = """SELECT chunks.hash, (catalog.flags >> 8) & 7 FROM chunks JOIN catalog
             USING (md5path_1, md5path_2) WHERE NOT catalog.flags & 128"""


class CompressedDatabases:
    """Implements port ``Databases``.

    Args:
        objects: The objects of the repository.
        max_bytes: The maximum decompressed size of a database.
    """

    def __init__(self, objects: DiskObjects, *, max_bytes: int) -> None:
        self._objects = objects
        self._max_bytes = max_bytes

    @contextmanager
    def catalog(self, name: ObjectName) -> Iterator[SqliteCatalog]:
        """Open a catalog."""
        with self._open(name) as database:
            yield SqliteCatalog(database, name)

    def tagged_catalogs(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """Return the root catalogs of the tags in a history."""
        with self._open(name) as database, sqlite_errors_translated(name):
            require_tables(database, name, "tags")
            rows = database.execute(
                "SELECT DISTINCT hash FROM tags LIMIT ?", (MAX_TAGS,)
            ).fetchall()
            return tuple(parse_hash(str(row[0]), ObjectKind.CATALOG) for row in rows)

    @contextmanager
    def _open(self, name: ObjectName) -> Iterator[sqlite3.Connection]:
        with tempfile.NamedTemporaryFile(suffix=TEMPORARY_SUFFIX, dir=self._objects.txn) as file:
            path = Path(file.name)
            with write_errors_translated(path):
                for block in decompress_pieces(
                    name, self._stored_blocks(name), limit=self._max_bytes
                ):
                    file.write(block)
                file.flush()
            with closing(connect(path, name)) as database:
                yield database

    def _stored_blocks(self, name: ObjectName) -> Iterator[bytes]:
        try:
            yield from blocks(self._objects.content(name))
        except OSError as error:
            hint = (
                "Run `gridstead cvmfs snapshot --check`, which fetches missing and damaged objects."
            )
            raise RepositoryIncomplete(
                f"cannot read stored object {name}", detail=str(error), hint=hint
            ) from error


@dataclass(frozen=True, slots=True)
class SqliteCatalog:
    """Implements port ``Catalog``."""

    database: sqlite3.Connection
    name: ObjectName

    def objects(self) -> Iterator[ObjectName]:
        """Yield the objects of the files in the catalog. An object may occur several times."""
        with sqlite_errors_translated(self.name):
            require_tables(self.database, self.name, "catalog", "chunks")
            for query, kind in ((_FILES, ObjectKind.FILE), (_CHUNKS, ObjectKind.CHUNK)):
                for digest, algorithm_number in self.database.execute(query):
                    yield from_digest(digest, algorithm_number, kind)

    def nested(self) -> tuple[ObjectName, ...]:
        """Return the nested catalogs, one level down."""
        catalogs = [name for _, name in nested_catalogs(self.database, self.name)]
        with sqlite_errors_translated(self.name):
            # This table has the catalogs that are mounted at a second path.
            if _has_table(self.database, "bind_mountpoints"):
                rows = self.database.execute("SELECT sha1 FROM bind_mountpoints").fetchall()
                catalogs += [parse_hash(str(row[0]), ObjectKind.CATALOG) for row in rows]
        return tuple(dict.fromkeys(catalogs))  # without duplicates, in order


def connect(path: Path, name: ObjectName) -> sqlite3.Connection:
    """Return a read-only database connection with limited queries.

    The first query fails if the file is not an SQLite database.

    Raises:
        RepositoryUntrusted: If the file cannot be opened.
    """
    with sqlite_errors_translated(name):
        uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        limit_queries(database)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA query_only = ON")
        return database


def limit_queries(database: sqlite3.Connection) -> None:
    """Set or renew the maximum number of steps for the queries of a connection."""
    # SQLite stops a query when the handler returns true. This handler returns true when it has
    # been called more than MAX_PROGRESS_CALLS times.
    calls = iter(range(MAX_PROGRESS_CALLS))
    database.set_progress_handler(lambda: next(calls, None) is None, STEPS_PER_PROGRESS_CALL)


def nested_catalogs(
    database: sqlite3.Connection, name: ObjectName
) -> tuple[tuple[str, ObjectName], ...]:
    """Return the nested catalogs of a catalog, with the paths of their roots.

    Raises:
        RepositoryUntrusted: If the database is not a catalog.
    """
    with sqlite_errors_translated(name):
        require_tables(database, name, "nested_catalogs")
        rows = database.execute("SELECT path, sha1 FROM nested_catalogs").fetchall()
        return tuple(
            (str(path), parse_hash(str(digest), ObjectKind.CATALOG)) for path, digest in rows
        )


def _has_table(database: sqlite3.Connection, table: str) -> bool:
    cursor = database.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    )
    return cursor.fetchone() is not None


def require_tables(database: sqlite3.Connection, name: ObjectName, *tables: str) -> None:
    """Check that a database has all of these tables.

    Raises:
        RepositoryUntrusted: If a table is missing.
    """
    missing_tables = [table for table in tables if not _has_table(database, table)]
    if missing_tables:
        raise RepositoryUntrusted(
            f"object {name} is not a database of the expected type",
            detail=f"no table {missing_tables[0]}",
        )


@contextmanager
def sqlite_errors_translated(name: ObjectName) -> Iterator[None]:
    """Translate an error of SQLite to an error of the object.

    Raises:
        RepositoryUntrusted: If SQLite reports an error.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
