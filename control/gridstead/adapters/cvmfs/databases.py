# SPDX-License-Identifier: Apache-2.0
"""Catalogs and histories: SQLite files, compressed. They come from a publisher who may have been
deceived.

Rule 1: a file is decompressed up to a limit. Rule 2: only tables are read, never views. Rule 3: a
query may take so many steps and no more.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gridstead.adapters.cvmfs.disk import PART, writing
from gridstead.adapters.cvmfs.objects import DiskObjects, blocks
from gridstead.domain.cvmfs.objects import ObjectKind, ObjectName, from_digest, inflated, parse_hash
from gridstead.errors import RepositoryIncomplete, RepositoryUntrusted

STEPS = 1_000_000  # of SQLite's machine between two counts
MAX_COUNTS = 5_000  # some minutes
MAX_TAGS = 100_000

# Flags of a catalog's row: 4 a file, 128 one whose content is elsewhere; bits 8 to 10 are the hash
# algorithm.
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
        with self._open(name) as database, judged(name):
            require(database, name, "tags")
            rows = database.execute(
                "SELECT DISTINCT hash FROM tags LIMIT ?", (MAX_TAGS,)
            ).fetchall()
            return tuple(parse_hash(str(row[0]), ObjectKind.CATALOG) for row in rows)

    @contextmanager
    def _open(self, name: ObjectName) -> Iterator[sqlite3.Connection]:
        with tempfile.NamedTemporaryFile(suffix=PART, dir=self._objects.txn) as file:
            path = Path(file.name)
            with writing(path):
                for block in inflated(name, self._stored(name), limit=self._max_bytes):
                    file.write(block)
                file.flush()
            with closing(connect(path, name)) as database:
                yield database

    def _stored(self, name: ObjectName) -> Iterator[bytes]:
        try:
            yield from blocks(self._objects.content(name))
        except OSError as error:
            hint = (
                "Run `gridstead cvmfs snapshot --check`, which fetches what is missing or broken."
            )
            raise RepositoryIncomplete(
                f"cannot read object {name} here", detail=str(error), hint=hint
            ) from error


@dataclass(frozen=True, slots=True)
class SqliteCatalog:
    """Implements port ``Catalog``."""

    database: sqlite3.Connection
    name: ObjectName

    def objects(self) -> Iterator[ObjectName]:
        """Return what its files consist of."""
        with judged(self.name):
            require(self.database, self.name, "catalog", "chunks")
            for query, kind in ((_FILES, ObjectKind.FILE), (_CHUNKS, ObjectKind.CHUNK)):
                for digest, code in self.database.execute(query):
                    yield from_digest(digest, code, kind)

    def nested(self) -> tuple[ObjectName, ...]:
        """Return the catalogs below it."""
        found = [name for _, name in nested_catalogs(self.database, self.name)]
        with judged(self.name):
            if _has(self.database, "bind_mountpoints"):  # catalogs that are shown in a second place
                rows = self.database.execute("SELECT sha1 FROM bind_mountpoints").fetchall()
                found += [parse_hash(str(row[0]), ObjectKind.CATALOG) for row in rows]
        return tuple(dict.fromkeys(found))


def connect(path: Path, name: ObjectName) -> sqlite3.Connection:
    """Return a database that is only read, its queries bounded until ``bound`` is called again.

    Raises:
        RepositoryUntrusted: It is none.
    """
    with judged(name):
        uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        bound(database)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA query_only = ON")
        return database


def bound(database: sqlite3.Connection) -> None:
    """Let a database's queries take so many steps from now on, and no more."""
    counts = iter(range(MAX_COUNTS))
    database.set_progress_handler(lambda: next(counts, None) is None, STEPS)


def nested_catalogs(
    database: sqlite3.Connection, name: ObjectName
) -> tuple[tuple[str, ObjectName], ...]:
    """Return the catalogs below one, with the paths where they are shown.

    Raises:
        RepositoryUntrusted: It is not a catalog.
    """
    with judged(name):
        require(database, name, "nested_catalogs")
        rows = database.execute("SELECT path, sha1 FROM nested_catalogs").fetchall()
        return tuple(
            (str(path), parse_hash(str(digest), ObjectKind.CATALOG)) for path, digest in rows
        )


def _has(database: sqlite3.Connection, table: str) -> bool:
    found = database.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    )
    return found.fetchone() is not None


def require(database: sqlite3.Connection, name: ObjectName, *tables: str) -> None:
    """Refuse a database that lacks one of these tables.

    Raises:
        RepositoryUntrusted: So it does.
    """
    missing = [table for table in tables if not _has(database, table)]
    if missing:
        raise RepositoryUntrusted(
            f"object {name} is not a database of its kind", detail=f"no table {missing[0]}"
        )


@contextmanager
def judged(name: ObjectName) -> Iterator[None]:
    """Tell what SQLite found wrong as a fault of the object.

    Raises:
        RepositoryUntrusted: SQLite found something.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
