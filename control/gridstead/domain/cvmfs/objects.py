# SPDX-License-Identifier: Apache-2.0
"""Names of objects: an object's name is the hash of its bytes as they are stored, compressed.

Rule: a name is made from checked parts only, so its path never leaves the repository.
Source: the format as docs/explanation/cvmfs.md tells it.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gridstead.errors import RepositoryUntrusted

DIGEST_BYTES = 20
BLOCK_BYTES = 1024 * 1024
SHOWN = 80


class Algorithm(Enum):
    """How an object is hashed; the value follows the digest in a name, and the order is that of
    catalogs' flags.
    """

    SHA1 = ""
    RMD160 = "-rmd160"
    SHAKE128 = "-shake128"


class ObjectKind(Enum):
    """What an object is; the value ends its path."""

    FILE = ""
    CATALOG = "C"
    HISTORY = "H"
    METAINFO = "M"
    CHUNK = "P"
    CERTIFICATE = "X"


_HASH = re.compile(r"([0-9a-f]{40})(|-rmd160|-shake128)")
_PATH = re.compile(r"data/([0-9a-f]{2})/([0-9a-f]{38})(|-rmd160|-shake128)([CHMPX]?)")


class Hasher(Protocol):
    """Takes bytes, piece by piece."""

    def update(self, data: bytes, /) -> None:
        """Take the next piece."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of all pieces, 40 digits."""
        ...


class _Shake:
    def __init__(self) -> None:
        self._hash = hashlib.shake_128()

    def update(self, data: bytes, /) -> None:
        self._hash.update(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest(DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of an object.

    Attributes:
        digest: 40 hexadecimal digits, lower case.
        algorithm: Of the digest.
        kind: What the object is.
    """

    digest: str
    algorithm: Algorithm
    kind: ObjectKind

    def __str__(self) -> str:
        return f"{self.digest}{self.algorithm.value}{self.kind.value}"

    @property
    def path(self) -> str:
        """Return where the object lies below its repository."""
        return f"data/{self.digest[:2]}/{str(self)[2:]}"


def new_hasher(algorithm: Algorithm) -> Hasher:
    """Return what computes a digest."""
    if algorithm is Algorithm.SHAKE128:
        return _Shake()
    name = "ripemd160" if algorithm is Algorithm.RMD160 else "sha1"
    return hashlib.new(name, usedforsecurity=False)  # weak, and the format's choice


def parse_hash(text: str, kind: ObjectKind) -> ObjectName:
    """Return the name that a manifest, a catalog or a history gives an object: digits and perhaps
    an algorithm.

    Raises:
        RepositoryUntrusted: It is none.
    """
    match = _HASH.fullmatch(text)
    if match is None:
        raise RepositoryUntrusted(f"{text[:SHOWN]!r} is not a content hash")
    return ObjectName(match[1], Algorithm(match[2]), kind)


def from_digest(digest: object, code: int, kind: ObjectKind) -> ObjectName:
    """Return the name that a row of a catalog gives an object.

    Args:
        digest: What stands in the column of hashes.
        code: The algorithm's number, from 0.
        kind: What the object is.

    Raises:
        RepositoryUntrusted: It is none.
    """
    algorithms = tuple(Algorithm)
    if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES or code >= len(algorithms):
        raise RepositoryUntrusted(
            f"{str(digest)[:SHOWN]!r} of algorithm {code} is not a content hash"
        )
    return ObjectName(digest.hex(), algorithms[code], kind)


def parse_path(path: str) -> ObjectName | None:
    """Return the object that lies at a path below its repository; None when no object can."""
    match = _PATH.fullmatch(path)
    return (
        ObjectName(match[1] + match[2], Algorithm(match[3]), ObjectKind(match[4]))
        if match
        else None
    )


def verified(name: ObjectName, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of an object.

    Raises:
        RepositoryUntrusted: At their end, if they are not what the name says.
    """
    hasher, size = new_hasher(name.algorithm), 0
    for piece in pieces:
        hasher.update(piece)
        size += len(piece)
        yield piece
    if hasher.hexdigest() != name.digest:
        hint = "The server, or a cache or line on the way, alters what it gives; nothing of it was kept."
        raise RepositoryUntrusted(
            f"object {name} is not what its name says", detail=f"{size} bytes", hint=hint
        )


def unpack(name: ObjectName, pieces: Iterable[bytes], *, limit: int) -> tuple[bytes, bytes]:
    """Return a small object, as it is stored and what it holds.

    Args:
        name: Of the object.
        pieces: Of its bytes.
        limit: What either may have of bytes.

    Raises:
        RepositoryUntrusted: It is not what its name says, not compressed, not whole, or larger.
    """
    packed = b"".join(verified(name, limited(name, pieces, limit)))
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(packed, limit)
    except zlib.error as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
    if not inflate.eof:
        raise RepositoryUntrusted(
            f"object {name} is not whole, or too large", detail=f"limit {limit} bytes"
        )
    return packed, content


def inflated(name: ObjectName, pieces: Iterable[bytes], *, limit: int) -> Iterator[bytes]:
    """Yield what an object holds.

    Args:
        name: Of the object.
        pieces: Of its bytes, as they are stored.
        limit: What it may hold, bytes.

    Raises:
        RepositoryUntrusted: It is not compressed, not whole, or larger.
    """
    inflate, size = zlib.decompressobj(), 0
    try:
        for piece in pieces:
            left = piece
            while left and not inflate.eof:
                content = inflate.decompress(left, BLOCK_BYTES)
                size += len(content)
                if size > limit:
                    raise RepositoryUntrusted(
                        f"object {name} is too large", detail=f"more than {limit} bytes unpacked"
                    )
                yield content
                left = inflate.unconsumed_tail
    except zlib.error as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
    if not inflate.eof:
        raise RepositoryUntrusted(f"object {name} is not whole", detail=f"{size} bytes unpacked")


def limited(name: ObjectName, pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Yield the pieces of an object.

    Raises:
        RepositoryUntrusted: They are more bytes than that.
    """
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise RepositoryUntrusted(
                f"object {name} is too large", detail=f"more than {limit} bytes"
            )
        yield piece
