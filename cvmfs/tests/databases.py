# SPDX-License-Identifier: Apache-2.0
"""Writes the SQLite databases of a revision: its catalogs, and the history with its tags.

A catalog lists the files of a directory and of its subdirectories. A subdirectory can have its own,
nested catalog.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cvmfs.tests.trees import Chunks, HardLink, Mode, Nested, Plain, Symlink, WithAttributes

if TYPE_CHECKING:
    from cvmfs.tests.publisher import Publisher

NOW = 1_800_000_000  # the time of every file and of every tag, Unix seconds
CHUNK_BYTES = 16 * 1024

# Flags of a row in a catalog. TRANSITION: the content of the directory is in a nested catalog.
DIRECTORY, TRANSITION, FILE, LINK, NESTED_ROOT, CHUNKED = 1, 2, 4, 8, 32, 64
PLAIN = 1 << 11  # not compressed

SCHEMA = """
CREATE TABLE catalog (md5path_1 INTEGER, md5path_2 INTEGER, parent_1 INTEGER, parent_2 INTEGER,
    hardlinks INTEGER, hash BLOB, size INTEGER, mode INTEGER, mtime INTEGER, flags INTEGER,
    name TEXT, symlink TEXT, uid INTEGER, gid INTEGER, xattr BLOB,
    CONSTRAINT pk_catalog PRIMARY KEY (md5path_1, md5path_2));
CREATE INDEX idx_catalog_parent ON catalog (parent_1, parent_2);
CREATE TABLE chunks (md5path_1 INTEGER, md5path_2 INTEGER, offset INTEGER, size INTEGER, hash BLOB,
    CONSTRAINT pk_chunks PRIMARY KEY (md5path_1, md5path_2, offset, size));
CREATE TABLE nested_catalogs (path TEXT, sha1 TEXT, size INTEGER,
    CONSTRAINT pk_nested PRIMARY KEY (path));
CREATE TABLE bind_mountpoints (path TEXT, sha1 TEXT, size INTEGER,
    CONSTRAINT pk_bind PRIMARY KEY (path));
CREATE TABLE statistics (counter TEXT, value INTEGER,
    CONSTRAINT pk_statistics PRIMARY KEY (counter));
CREATE TABLE properties (key TEXT, value TEXT, CONSTRAINT pk_properties PRIMARY KEY (key));
INSERT INTO properties VALUES ('schema', '2.5'), ('schema_revision', '7');
"""


def store_catalog(publisher: Publisher, tree: Mapping[str, Any], folder: str = "") -> str:
    """Store the files of a directory and the catalog that lists them.

    Args:
        publisher: The publisher that stores the objects.
        tree: The files of the directory.
        folder: The path of the directory. Empty for the root of the repository.

    Returns:
        The hash of the catalog.
    """
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    properties = (("revision", str(publisher.revision)), ("root_prefix", folder))
    database.executemany("INSERT INTO properties VALUES (?, ?)", properties)
    writer = _CatalogWriter(publisher, database)
    flags = DIRECTORY | (NESTED_ROOT if folder else 0)
    writer.add_row(folder, flags, mode=0o40755, links=_links(tree))
    writer.add_files(tree, folder)
    return publisher.store(_close(database), "C")


def store_history(publisher: Publisher) -> str:
    """Store the history with the publisher's tags, and return its hash."""
    database = sqlite3.connect(":memory:")
    database.executescript(
        "CREATE TABLE tags (name TEXT PRIMARY KEY, hash TEXT, revision INTEGER,"
        " timestamp INTEGER, channel INTEGER, description TEXT, size INTEGER, branch TEXT);"
        "CREATE TABLE properties (key TEXT PRIMARY KEY, value TEXT);"
    )
    rows = [(tag, digest, 1, NOW, 0, "", 0, "") for tag, digest in publisher.tags.items()]
    database.executemany("INSERT INTO tags VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return publisher.store(_close(database), "H")


@dataclass(frozen=True)
class _CatalogWriter:
    """Stores files and adds their rows to the database of one catalog."""

    publisher: Publisher
    database: sqlite3.Connection

    def add_files(self, tree: Mapping[str, Any], folder: str) -> None:
        """Store the files of a directory and add their rows."""
        for name, node in tree.items():
            path = f"{folder}/{name}"
            match node:
                case Mode():
                    self.add_files({name: node.node}, folder)
                    self._change_mode(path, node)
                case Symlink():
                    self.add_row(path, FILE | LINK, mode=0o120777, symlink=node.target)
                case Nested():
                    self._add_nested(path, node.tree)
                case Mapping():
                    self.add_row(path, DIRECTORY, mode=0o40755, links=_links(node))
                    self.add_files(node, path)
                case _:
                    self._add_any_file(path, node)

    def _add_any_file(self, path: str, node: Any) -> None:
        """Store a file, which any of the classes in trees.py describes, and add its row."""
        match node:
            case bytes():
                self._add_file(path, node)
            case WithAttributes():
                self._add_file(path, node.content, xattr=node.attributes)
            case HardLink():
                # Column hardlinks: the upper 32 bits are the group, the lower 32 bits the count.
                self._add_file(path, node.content, links=node.group << 32 | node.count)
            case Chunks():
                self._add_chunks(path, node.content)
            case Plain():
                digest = bytes.fromhex(self.publisher.store(node.content, plain=True)[:40])
                size = len(node.content)
                self.add_row(path, FILE | PLAIN, mode=0o100644, size=size, digest=digest)
            case _:
                raise TypeError(f"{path}: {node!r} is not a node of a tree")

    def _change_mode(self, path: str, node: Mode) -> None:
        # The lowest 12 bits of a mode are the permissions, the others are the file type.
        values = (node.mode, node.uid, node.gid, *_md5(path))
        self.database.execute(
            "UPDATE catalog SET mode = mode & ~4095 | ?, uid = ?, gid = ?"
            " WHERE md5path_1 = ? AND md5path_2 = ?",
            values,
        )

    def _add_nested(self, path: str, tree: Mapping[str, Any]) -> None:
        digest = store_catalog(self.publisher, tree, path)
        size = self.publisher.path(digest, "C").stat().st_size
        row = (path, digest, size)
        self.database.execute("INSERT INTO nested_catalogs VALUES (?, ?, ?)", row)
        flags = DIRECTORY | TRANSITION
        self.add_row(path, flags, mode=0o40755, links=_links(tree))

    def _add_file(
        self, path: str, content: bytes, *, links: int = 1, xattr: bytes | None = None
    ) -> None:
        digest = bytes.fromhex(self.publisher.store(content)[:40])
        self.add_row(
            path,
            FILE,
            mode=0o100644,
            size=len(content),
            digest=digest,
            links=links,
            xattr=xattr,
        )

    def _add_chunks(self, path: str, content: bytes) -> None:
        self.add_row(path, FILE | CHUNKED, mode=0o100644, size=len(content))
        for offset in range(0, len(content), CHUNK_BYTES):
            piece = content[offset : offset + CHUNK_BYTES]
            digest = bytes.fromhex(self.publisher.store(piece, "P")[:40])
            row = (*_md5(path), offset, len(piece), digest)
            self.database.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", row)

    def add_row(
        self,
        path,
        flags,
        *,
        mode,
        size=4096,
        links=1,
        symlink="",
        digest=None,
        xattr=None,
    ):
        # Bits 8 to 10 of the flags are the hash algorithm.
        algorithm = ("", "-rmd160", "-shake128").index(self.publisher.suffix) << 8
        parent_path, _, name = path.rpartition("/")
        parent = _md5(parent_path) if path else (0, 0)
        row = (
            *_md5(path),
            *parent,
            links,
            digest,
            size,
            mode,
            NOW,
            flags | algorithm,
            name,
            symlink,
            0,
            0,
            xattr,
        )
        placeholders = ", ".join("?" * len(row))
        self.database.execute(f"INSERT INTO catalog VALUES ({placeholders})", row)


def _close(database: sqlite3.Connection) -> bytes:
    """Close a database in memory, and return its content."""
    database.commit()
    raw = database.serialize()
    database.close()
    return raw


def _links(tree: Mapping[str, Any]) -> int:
    directories = [node for node in tree.values() if isinstance(node, (Mapping, Nested))]
    return 2 + len(directories)


def _md5(path: str) -> tuple[int, int]:
    first, second = struct.unpack("<qq", hashlib.md5(path.encode()).digest())
    return first, second
