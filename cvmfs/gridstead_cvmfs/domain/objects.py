# SPDX-License-Identifier: Apache-2.0
"""Object names, and checks of objects. The name of an object is the hash of its stored bytes.

Rule: every part of a name is checked, so the path of an object never leaves the repository.
Source: the format described in docs/explanation/cvmfs.md.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gridstead_cvmfs.errors import RepositoryUntrusted

DIGEST_BYTES = 20
BLOCK_BYTES = 1024 * 1024
MAX_QUOTED = 80  # maximum number of characters of a server's value in an error message


class HashAlgorithm(Enum):
    """The hash algorithm of an object.

    The value of a member is the suffix of the digest in a name. The position of a member, from 0,
    is the number of the algorithm in the flags of a catalog.
    """

    SHA1 = ""
    RMD160 = "-rmd160"
    SHAKE128 = "-shake128"


class ObjectKind(Enum):
    """The type of an object. The value is the suffix of the object's path."""

    FILE = ""
    CATALOG = "C"
    HISTORY = "H"
    METAINFO = "M"
    CHUNK = "P"
    CERTIFICATE = "X"


# A hash, and the path of an object. A hash without a suffix is a SHA-1 hash. A path ends with the
# type of the object, which is empty for a file.
_HASH = re.compile(r"([0-9a-f]{40})(|-rmd160|-shake128)")
_PATH = re.compile(r"data/([0-9a-f]{2})/([0-9a-f]{38})(|-rmd160|-shake128)([CHMPX]?)")


class Hasher(Protocol):
    """Computes the digest of data that arrives in pieces."""

    def update(self, data: bytes, /) -> None:
        """Add the next piece."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of all pieces as 40 hexadecimal digits."""
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
        algorithm: The algorithm of the digest.
        kind: The type of the object.
    """

    digest: str
    algorithm: HashAlgorithm
    kind: ObjectKind

    def __str__(self) -> str:
        return f"{self.digest}{self.algorithm.value}{self.kind.value}"

    @property
    def path(self) -> str:
        """Return the path of the object, relative to its repository."""
        return f"data/{self.digest[:2]}/{str(self)[2:]}"


def new_hasher(algorithm: HashAlgorithm) -> Hasher:
    """Return a new hasher for an algorithm."""
    if algorithm is HashAlgorithm.SHAKE128:
        return _Shake()
    name = "ripemd160" if algorithm is HashAlgorithm.RMD160 else "sha1"
    return hashlib.new(name, usedforsecurity=False)  # weak, but the format prescribes it


def parse_hash(text: str, kind: ObjectKind) -> ObjectName:
    """Return the object name that a manifest, a catalog or a history contains.

    Args:
        text: The digest, followed by the suffix of the algorithm (SHA-1 has no suffix).
        kind: The type of the object.

    Raises:
        RepositoryUntrusted: If the text is not a content hash.
    """
    match = _HASH.fullmatch(text)
    if match is None:
        raise RepositoryUntrusted(f"{text[:MAX_QUOTED]!r} is not a content hash")
    return ObjectName(match[1], HashAlgorithm(match[2]), kind)


def from_digest(digest: object, algorithm_number: int, kind: ObjectKind) -> ObjectName:
    """Return the object name in a row of a catalog.

    Args:
        digest: The value of the hash column.
        algorithm_number: The number of the algorithm, from 0.
        kind: The type of the object.

    Raises:
        RepositoryUntrusted: If the digest is not a content hash, or the algorithm is unknown.
    """
    algorithms = tuple(HashAlgorithm)
    is_known = algorithm_number < len(algorithms)
    if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES or not is_known:
        raise RepositoryUntrusted(
            f"{str(digest)[:MAX_QUOTED]!r} of algorithm {algorithm_number} is not a content hash"
        )
    return ObjectName(digest.hex(), algorithms[algorithm_number], kind)


def parse_path(path: str) -> ObjectName | None:
    """Return the name of the object at a path relative to its repository.

    Returns:
        None if no object can have this path.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    return ObjectName(match[1] + match[2], HashAlgorithm(match[3]), ObjectKind(match[4]))


def verify_pieces(name: ObjectName, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of an object, and check the hash of the object after the last piece.

    Raises:
        RepositoryUntrusted: After the last piece, if the hash does not match the name.
    """
    hasher, size = new_hasher(name.algorithm), 0
    for piece in pieces:
        hasher.update(piece)
        size += len(piece)
        yield piece
    if hasher.hexdigest() != name.digest:
        hint = "The server, or a cache or proxy on the way, altered the data. It was discarded."
        raise RepositoryUntrusted(
            f"object {name} does not match its hash", detail=f"{size} bytes", hint=hint
        )


def decompress(name: ObjectName, pieces: Iterable[bytes], *, limit: int) -> tuple[bytes, bytes]:
    """Return the stored bytes and the decompressed content of a small object.

    Args:
        name: The name of the object.
        pieces: The stored bytes of the object.
        limit: The maximum size of the stored bytes, and of the content. Unit: bytes.

    Raises:
        RepositoryUntrusted: If the object does not match its name, is not compressed, is
            truncated or is too large.
    """
    compressed_content = b"".join(verify_pieces(name, limit_pieces(name, pieces, limit)))
    decompressor = zlib.decompressobj()
    try:
        content = decompressor.decompress(compressed_content, limit)
    except zlib.error as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
    if not decompressor.eof:
        raise RepositoryUntrusted(
            f"object {name} is truncated or too large", detail=f"limit {limit} bytes"
        )
    return compressed_content, content


def decompress_pieces(name: ObjectName, pieces: Iterable[bytes], *, limit: int) -> Iterator[bytes]:
    """Yield the decompressed content of an object.

    Args:
        name: The name of the object.
        pieces: The stored bytes of the object.
        limit: The maximum size of the content. Unit: bytes.

    Raises:
        RepositoryUntrusted: If the object is not compressed, is truncated or is too large.
    """
    decompressor, size = zlib.decompressobj(), 0
    try:
        for piece in pieces:
            remaining_data = piece
            while remaining_data and not decompressor.eof:
                content = decompressor.decompress(remaining_data, BLOCK_BYTES)
                size += len(content)
                if size > limit:
                    raise RepositoryUntrusted(
                        f"object {name} is too large", detail=f"more than {limit} bytes unpacked"
                    )
                yield content
                remaining_data = decompressor.unconsumed_tail
    except zlib.error as error:
        raise RepositoryUntrusted(f"object {name} cannot be read", detail=str(error)) from error
    if not decompressor.eof:
        raise RepositoryUntrusted(f"object {name} is truncated", detail=f"{size} bytes unpacked")


def limit_pieces(name: ObjectName, pieces: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Yield the pieces of an object while their total size is within a limit in bytes.

    Raises:
        RepositoryUntrusted: If the pieces have more than ``limit`` bytes.
    """
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise RepositoryUntrusted(
                f"object {name} is too large", detail=f"more than {limit} bytes"
            )
        yield piece
