# SPDX-License-Identifier: Apache-2.0
"""What a repository's tree shows: names, and what is behind them.

A path begins with a slash and does not end with one; the root's is empty. Catalogs list rows under
the MD5 of their path. What is parsed here was signed, but who signed it may have been deceived.
Source: the format as docs/explanation/cvmfs.md tells it.
"""

from __future__ import annotations

import hashlib
import stat
import struct
from dataclasses import dataclass
from typing import NamedTuple

from gridstead.domain.cvmfs.objects import SHOWN, ObjectKind, ObjectName, from_digest
from gridstead.errors import RepositoryUntrusted

# Flags of a row. Bits 8 to 10 are the algorithm of its hashes, 11 to 13 how its objects are packed.
CHUNKED = 64
EXTERNAL = 128
HIDDEN = 0x8000
_ALGORITHM, _ALGORITHM_AT = 7, 8
_PACKING, _PACKING_AT = 7, 11
_ZLIB, _PLAIN = 0, 1
_GROUP_AT = 32  # of the column that counts links: above this bit, which files of a folder are one
_COUNT = 0xFFFFFFFF
_SPECIAL = (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)
MAX_SIZE = 2**62


class Row(NamedTuple):
    """A row of a catalog, column by column."""

    name: object
    mode: object
    size: object
    mtime: object
    uid: object
    gid: object
    hardlinks: object
    flags: object
    hash: object
    symlink: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """An object that is a part of a file, or all of it.

    Attributes:
        name: Of the object.
        offset: Where in the file it begins, bytes.
        size: What it holds, unpacked, bytes.
        packed: Whether it is stored compressed.
    """

    name: ObjectName
    offset: int
    size: int
    packed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """A name in a tree.

    Attributes:
        name: The last part of its path; empty for the root.
        mode: Type and permissions.
        size: Bytes; of a device, its number.
        mtime: Unix seconds.
        uid: As it was published.
        gid: As it was published.
        links: Names that it has; of a directory, two and its directories.
        inode: The same for all names of a file, and in all revisions.
        flags: Of its row.
        digest: Of the object that is its content; None if there is none, or several.
        target: Of a symbolic link.
    """

    name: str
    mode: int
    size: int
    mtime: int
    uid: int
    gid: int
    links: int
    inode: int
    flags: int
    digest: bytes | None
    target: str

    @property
    def is_file(self) -> bool:
        """Return whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_directory(self) -> bool:
        """Return whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_hidden(self) -> bool:
        """Return whether listings leave it out."""
        return bool(self.flags & HIDDEN)

    @property
    def is_chunked(self) -> bool:
        """Return whether its content is listed piece by piece elsewhere in the catalog."""
        return bool(self.flags & CHUNKED)


def path_key(path: str) -> tuple[int, int]:
    """Return under which two numbers a catalog has a path."""
    first, second = struct.unpack("<qq", _md5(path))
    return first, second


def parent_of(path: str) -> str:
    """Return the path of the directory that holds a path."""
    return path.rpartition("/")[0]


def parse_entry(row: Row, folder: str) -> TreeEntry:
    """Return what a row says.

    Args:
        row: Of a catalog.
        folder: The path of the directory that holds it.

    Raises:
        RepositoryUntrusted: It says what no tree can.
    """
    name, target = _text(row.name), _text(row.symlink)
    if "/" in name or "\0" in name + target or name in {".", ".."}:
        raise RepositoryUntrusted(f"{name[:SHOWN]!r} in {folder[:SHOWN]!r} is not a name")
    mode, links = _number(row.mode, "mode"), _number(row.hardlinks, "links")
    if not (
        stat.S_ISREG(mode)
        or stat.S_ISDIR(mode)
        or stat.S_ISLNK(mode)
        or stat.S_IFMT(mode) in _SPECIAL
    ):
        raise RepositoryUntrusted(
            f"{name[:SHOWN]!r} in {folder[:SHOWN]!r} is of no kind", detail=f"mode {mode:o}"
        )
    group = links >> _GROUP_AT
    whole = f"{folder}/{name}" if name else folder
    return TreeEntry(
        name=name,
        mode=mode,
        size=len(target.encode("utf-8", "surrogateescape"))
        if stat.S_ISLNK(mode)
        else _number(row.size, "size"),
        mtime=row.mtime if isinstance(row.mtime, int) and 0 <= row.mtime <= MAX_SIZE else 0,
        uid=_number(row.uid, "owner"),
        gid=_number(row.gid, "group"),
        links=max(links & _COUNT, 1),
        inode=_inode(f"{folder}\0{group}" if group else whole),
        flags=_number(row.flags, "flags"),
        digest=row.hash if isinstance(row.hash, bytes) else None,
        target=target,
    )


def whole_of(entry: TreeEntry) -> tuple[Piece, ...]:
    """Return the content of a file that is not chunked: one piece, or none if it is empty.

    Raises:
        RepositoryUntrusted: It has none, or one that is packed in a way that nobody knows.
    """
    if entry.flags & EXTERNAL:
        raise RepositoryUntrusted(f"content of {entry.name[:SHOWN]!r} is not in the repository")
    if entry.size == 0:
        return ()
    return (piece_of(entry, 0, entry.size, entry.digest, ObjectKind.FILE),)


def chunks_of(
    entry: TreeEntry, rows: tuple[tuple[object, object, object], ...]
) -> tuple[Piece, ...]:
    """Return the content of a chunked file, from first to last.

    Args:
        entry: The file.
        rows: Of its chunks: offset, size, hash; in the order of their offsets.

    Raises:
        RepositoryUntrusted: They do not make up the file.
    """
    pieces = tuple(
        piece_of(entry, _number(at, "offset"), _number(size, "size"), digest, ObjectKind.CHUNK)
        for at, size, digest in rows
    )
    end = 0
    for piece in pieces:
        if piece.offset != end:
            raise RepositoryUntrusted(
                f"chunks of {entry.name[:SHOWN]!r} do not join", detail=f"at byte {end}"
            )
        end += piece.size
    if end != entry.size:
        raise RepositoryUntrusted(
            f"chunks of {entry.name[:SHOWN]!r} are not all of it", detail=f"{end} bytes"
        )
    return pieces


def piece_of(entry: TreeEntry, offset: int, size: int, digest: object, kind: ObjectKind) -> Piece:
    """Return a piece of a file.

    Raises:
        RepositoryUntrusted: It has no name, or is packed in a way that nobody knows.
    """
    packing = entry.flags >> _PACKING_AT & _PACKING
    if packing not in {_ZLIB, _PLAIN}:
        raise RepositoryUntrusted(
            f"{entry.name[:SHOWN]!r} is packed in an unknown way", detail=f"number {packing}"
        )
    name = from_digest(digest, entry.flags >> _ALGORITHM_AT & _ALGORITHM, kind)
    return Piece(name=name, offset=offset, size=size, packed=packing == _ZLIB)


def _md5(text: str) -> bytes:
    return hashlib.md5(
        text.encode("utf-8", "surrogateescape"), usedforsecurity=False
    ).digest()  # the format's choice


def _inode(text: str) -> int:
    """Return a number that is not 0, which means none, nor 1, which is FUSE's own."""
    return (int.from_bytes(_md5(text)[:8]) >> 1) | 2


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RepositoryUntrusted(f"{str(value)[:SHOWN]!r} is not a text")
    return value


def _number(value: object, what: str) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
        raise RepositoryUntrusted(f"{what} of an entry is none", detail=str(value)[:SHOWN])
    return value
