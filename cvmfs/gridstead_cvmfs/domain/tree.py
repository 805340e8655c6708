# SPDX-License-Identifier: Apache-2.0
"""The directory tree of a repository: entries, and the objects that contain their content.

A path begins with a slash and does not end with a slash. The path of the root is empty. In a
catalog, the key of a row is the MD5 of its path. The rows are signed, but the signer may have
signed harmful data. Therefore this module checks every value.
Source: the format described in docs/explanation/cvmfs.md.
"""

from __future__ import annotations

import hashlib
import stat
import struct
from dataclasses import dataclass
from typing import NamedTuple

from gridstead_cvmfs.domain.objects import MAX_QUOTED_CHARS, ObjectKind, ObjectName, from_digest
from gridstead_cvmfs.errors import RepositoryUntrusted

# Flags of a row. Bits 8 to 10 are the hash algorithm, bits 11 to 13 the compression algorithm.
CHUNKED = 64
EXTERNAL = 128
HIDDEN = 0x8000
_ALGORITHM_MASK, _ALGORITHM_SHIFT = 7, 8
_COMPRESSION_MASK, _COMPRESSION_SHIFT = 7, 11
_ZLIB, _UNCOMPRESSED = 0, 1
# The hardlinks column: the low bits count the links, the high bits are the number of a hard link
# group. The files of a directory with the same group number are one file.
_LINK_GROUP_SHIFT = 32
_LINK_COUNT_MASK = 0xFFFFFFFF
_FILE_TYPES = (
    stat.S_IFREG,
    stat.S_IFDIR,
    stat.S_IFLNK,
    stat.S_IFIFO,
    stat.S_IFSOCK,
    stat.S_IFCHR,
    stat.S_IFBLK,
)
MAX_SIZE = 2**62


class Row(NamedTuple):
    """A row of a catalog. Each field is a column."""

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
class FileChunk:
    """An object that contains a part of a file, or the whole file.

    Attributes:
        name: The name of the object.
        offset: The position of the chunk in the file. Unit: bytes.
        size: The decompressed size. Unit: bytes.
        is_compressed: Whether the stored bytes are compressed.
    """

    name: ObjectName
    offset: int
    size: int
    is_compressed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEntry:
    """An entry of a directory.

    Attributes:
        name: The last component of the path. Empty for the root.
        mode: The file type and the permissions.
        size: The size in bytes. For a device, the device number.
        mtime: The time of the last change. Unit: Unix seconds.
        uid: The owner, as published.
        gid: The group, as published.
        links: The number of hard links. For a directory, two plus the number of its subdirectories.
        inode: The inode number. All hard links of a file have the same number in all revisions.
        flags: The flags of the row.
        digest: The hash of the content. None if there is no content, or if it has several chunks.
        target: The target of a symbolic link.
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
        """Return whether the entry is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_directory(self) -> bool:
        """Return whether the entry is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        """Return whether the entry is a symbolic link."""
        return stat.S_ISLNK(self.mode)

    @property
    def is_hidden(self) -> bool:
        """Return whether directory listings omit the entry."""
        return bool(self.flags & HIDDEN)

    @property
    def is_chunked(self) -> bool:
        """Return whether the catalog lists the content as several chunks."""
        return bool(self.flags & CHUNKED)


def path_key(path: str) -> tuple[int, int]:
    """Return the key of a path in a catalog: the two halves of its MD5 as signed integers."""
    first, second = struct.unpack("<qq", _md5(path))
    return first, second


def parent_of(path: str) -> str:
    """Return the path of the parent directory."""
    return path.rpartition("/")[0]


def parse_entry(row: Row, folder: str) -> TreeEntry:
    """Return the entry that a row describes.

    Args:
        row: A row of a catalog.
        folder: The path of the parent directory.

    Raises:
        RepositoryUntrusted: If a value of the row is not valid.
    """
    name, target = _text(row.name), _text(row.symlink)
    has_nul = "\0" in name or "\0" in target
    if "/" in name or has_nul or name in {".", ".."}:
        raise RepositoryUntrusted(
            f"{name[:MAX_QUOTED_CHARS]!r} in {folder[:MAX_QUOTED_CHARS]!r} is not a name"
        )
    mode = _number(row.mode, "mode")
    hardlinks = _number(row.hardlinks, "links")
    if stat.S_IFMT(mode) not in _FILE_TYPES:
        raise RepositoryUntrusted(
            f"file type of {name[:MAX_QUOTED_CHARS]!r} in {folder[:MAX_QUOTED_CHARS]!r} is unknown",
            detail=f"mode {mode:o}",
        )
    path = f"{folder}/{name}" if name else folder
    # Hard links of one file have the same link group, and therefore the same inode.
    link_group = hardlinks >> _LINK_GROUP_SHIFT
    inode_key = f"{folder}\0{link_group}" if link_group else path
    return TreeEntry(
        name=name,
        mode=mode,
        size=_size(row, mode, target),
        mtime=_modified_at(row.mtime),
        uid=_number(row.uid, "owner"),
        gid=_number(row.gid, "group"),
        links=max(hardlinks & _LINK_COUNT_MASK, 1),
        inode=_inode(inode_key),
        flags=_number(row.flags, "flags"),
        digest=row.hash if isinstance(row.hash, bytes) else None,
        target=target,
    )


def _size(row: Row, mode: int, target: str) -> int:
    if stat.S_ISLNK(mode):
        return len(target.encode("utf-8", "surrogateescape"))
    return _number(row.size, "size")


def _modified_at(mtime: object) -> int:
    if isinstance(mtime, int) and 0 <= mtime <= MAX_SIZE:
        return mtime
    return 0


def single_chunk(entry: TreeEntry) -> tuple[FileChunk, ...]:
    """Return the content of a file that is not chunked: one chunk, or none if the file is empty.

    Raises:
        RepositoryUntrusted: If the content is not in the repository, or if the row has no content
            hash or an unknown compression.
    """
    if entry.flags & EXTERNAL:
        raise RepositoryUntrusted(
            f"content of {entry.name[:MAX_QUOTED_CHARS]!r} is not in the repository"
        )
    if entry.size == 0:
        return ()
    return (make_chunk(entry, 0, entry.size, entry.digest, ObjectKind.FILE),)


def chunks_of_file(
    entry: TreeEntry, rows: tuple[tuple[object, object, object], ...]
) -> tuple[FileChunk, ...]:
    """Return the content of a chunked file, in the order of the offsets.

    Args:
        entry: The file.
        rows: Offset, size and hash of each chunk, in the order of the offsets.

    Raises:
        RepositoryUntrusted: If the chunks have gaps or overlaps, or do not have the size of the
            file.
    """
    chunks = []
    end = 0
    for raw_offset, raw_size, digest in rows:
        offset, size = _number(raw_offset, "offset"), _number(raw_size, "size")
        chunk = make_chunk(entry, offset, size, digest, ObjectKind.CHUNK)
        if chunk.offset != end:
            raise RepositoryUntrusted(
                f"chunks of {entry.name[:MAX_QUOTED_CHARS]!r} are not contiguous",
                detail=f"at byte {end}",
            )
        chunks.append(chunk)
        end += chunk.size
    if end != entry.size:
        raise RepositoryUntrusted(
            f"chunks of {entry.name[:MAX_QUOTED_CHARS]!r} do not have the size of the file",
            detail=f"{end} bytes",
        )
    return tuple(chunks)


def make_chunk(
    entry: TreeEntry, offset: int, size: int, digest: object, kind: ObjectKind
) -> FileChunk:
    """Return a chunk of a file.

    Raises:
        RepositoryUntrusted: If the digest is not a content hash, or the compression is unknown.
    """
    compression = entry.flags >> _COMPRESSION_SHIFT & _COMPRESSION_MASK
    if compression not in {_ZLIB, _UNCOMPRESSED}:
        raise RepositoryUntrusted(
            f"compression of {entry.name[:MAX_QUOTED_CHARS]!r} is unknown",
            detail=f"number {compression}",
        )
    algorithm_number = entry.flags >> _ALGORITHM_SHIFT & _ALGORITHM_MASK
    name = from_digest(digest, algorithm_number, kind)
    return FileChunk(name=name, offset=offset, size=size, is_compressed=compression == _ZLIB)


def _md5(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return hashlib.md5(data, usedforsecurity=False).digest()  # the format prescribes MD5


def _inode(text: str) -> int:
    """Return an inode number greater than 1: 0 means no inode, and 1 is the root of FUSE."""
    first_bytes = _md5(text)[:8]
    number = int.from_bytes(first_bytes) >> 1  # not negative as a signed integer
    return number | 2


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RepositoryUntrusted(f"{str(value)[:MAX_QUOTED_CHARS]!r} is not text")
    return value


def _number(value: object, column: str) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
        raise RepositoryUntrusted(
            f"{column} of an entry is not a valid number", detail=str(value)[:MAX_QUOTED_CHARS]
        )
    return value
