# SPDX-License-Identifier: Apache-2.0
"""Catalogs and histories: SQLite files, compressed. They come from a publisher who may have been deceived.

Rule 1: a file is decompressed up to a limit. Rule 2: only tables are read, never views. Rule 3: a query may take so
many steps and no more.
"""

from __future__ import annotations

import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gridstead.adapters.cvmfs.disk import PART, writing
from gridstead.adapters.cvmfs.objects import DiskObjects
from gridstead.domain.cvmfs.objects import Kind, ObjectName, from_digest, parse_hash
from gridstead.errors import RepositoryUntrusted

BLOCK_BYTES = 1024 * 1024
STEPS = 1_000_000  # of SQLite's machine between two counts
MAX_COUNTS = 5_000  # some minutes
MAX_TAGS = 100_000

# Flags of a catalog's row: 4 a file, 128 one whose content is elsewhere; bits 8 to 10 are the hash algorithm.
_FILES = "SELECT hash, (flags >> 8) & 7 FROM catalog WHERE hash IS NOT NULL AND flags & 4 AND NOT flags & 128"
_CHUNKS = """SELECT chunks.hash, (catalog.flags >> 8) & 7 FROM chunks JOIN catalog
             USING (md5path_1, md5path_2) WHERE NOT catalog.flags & 128"""


class CompressedDatabases:
    """Implements port ``Databases``.

    Args:
        objects: Where they lie.
        max_bytes: What one may be without compression.
    """

    def __init__(self, objects: DiskObjects, *, max_bytes: int) -> None:
        self._objects = objects
        self._max_bytes = max_bytes

    @contextmanager
    def catalog(self, name: ObjectName) -> Iterator[SqliteCatalog]:
        """Open a catalog."""
        with self._open(name) as database:
            yield SqliteCatalog(database, name)

    def tagged(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """Return the root catalogs that a history names."""
        with self._open(name) as database, _judged(name):
            _require(database, name, "tags")
            rows = database.execute("SELECT DISTINCT hash FROM tags LIMIT ?", (MAX_TAGS,)).fetchall()
            return tuple(parse_hash(str(row[0]), Kind.CATALOG) for row in rows)

    @contextmanager
    def _open(self, name: ObjectName) -> Iterator[sqlite3.Connection]:
        with tempfile.NamedTemporaryFile(suffix=PART, dir=self._objects.txn) as file:
            path = Path(file.name)
            with writing(path):
                for block in _inflated(self._objects.content(name), name, self._max_bytes):
                    file.write(block)
                file.flush()
            uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as database:
                with _judged(name):
                    _bound(database)
                yield database


@dataclass(frozen=True, slots=True)
class SqliteCatalog:
    """Implements port ``Catalog``."""

    database: sqlite3.Connection
    name: ObjectName

    def objects(self) -> Iterator[ObjectName]:
        """Return what its files consist of."""
        with _judged(self.name):
            _require(self.database, self.name, "catalog", "chunks")
            for query, kind in ((_FILES, Kind.FILE), (_CHUNKS, Kind.CHUNK)):
                for digest, code in self.database.execute(query):
                    yield from_digest(digest, code, kind)

    def nested(self) -> tuple[ObjectName, ...]:
        """Return the catalogs below it."""
        with _judged(self.name):
            _require(self.database, self.name, "nested_catalogs")
            rows = self.database.execute("SELECT sha1 FROM nested_catalogs").fetchall()
            if _has(self.database, "bind_mountpoints"):  # catalogs that are shown in a second place
                rows += self.database.execute("SELECT sha1 FROM bind_mountpoints").fetchall()
            return tuple(dict.fromkeys(parse_hash(str(row[0]), Kind.CATALOG) for row in rows))


def _inflated(path: Path, name: ObjectName, limit: int) -> Iterator[bytes]:
    """Yield what a compressed file holds.

    Raises:
        RepositoryUntrusted: It is not compressed, not whole, or larger than the limit.
    """
    inflate, size = zlib.decompressobj(), 0
    with path.open("rb") as file, _judged(name):
        while block := file.read(BLOCK_BYTES):
            while block and not inflate.eof:
                piece = inflate.decompress(block, BLOCK_BYTES)
                size += len(piece)
                if size > limit:
                    raise RepositoryUntrusted(f"object {name} is too large", detail=f"more than {limit} bytes unpacked")
                yield piece
                block = inflate.unconsumed_tail
    if not inflate.eof:
        raise RepositoryUntrusted(f"object {name} is not whole", detail=f"{size} bytes unpacked")


def _bound(database: sqlite3.Connection) -> None:
    counts = iter(range(MAX_COUNTS))
    database.set_progress_handler(lambda: next(counts, None) is None, STEPS)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")


def _has(database: sqlite3.Connection, table: str) -> bool:
    found = database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    return found.fetchone() is not None


def _require(database: sqlite3.Connection, name: ObjectName, *tables: str) -> None:
    missing = [table for table in tables if not _has(database, table)]
    if missing:
        raise RepositoryUntrusted(f"object {name} is not a database of its kind", detail=f"no table {missing[0]}")


@contextmanager
def _judged(name: ObjectName) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error) as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
