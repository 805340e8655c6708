# SPDX-License-Identifier: Apache-2.0
"""The bytes of a log file: a head, then chunks, each sealed with AES-256-GCM.

A file has a key of its own, made from the storage key and the salt in its head. A chunk's head
tells its length and numbers in clear; the seal covers it, the file's head, whose log it is, and
where in the file the chunk stands. So a chunk that is altered, moved, copied or given to another
owner does not open. What the seal cannot show is that the end of a file is missing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gridstead.domain.log import Chunk, LogId, StoredChunk, Stream
from gridstead.errors import LogDamaged

MAX_SEALED_BYTES = 8 * 1024 * 1024  # more than any message that the server takes
SALT_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16

_MAGIC = b"GRIDLOG1"
_FILE_HEAD = struct.Struct(f">8sq{SALT_BYTES}s")  # magic, made at (ns), salt
_CHUNK_HEAD = struct.Struct(f">IIQqQQB{NONCE_BYTES}s")
_POSITION = struct.Struct(">Q")

FILE_HEAD_BYTES = _FILE_HEAD.size
CHUNK_HEAD_BYTES = _CHUNK_HEAD.size


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHead:
    """What a chunk's head tells without its key.

    Attributes:
        sealed_bytes: Length of the sealed lines.
        lines: How many they are.
        first_line: Number of the first, from 1.
        writer: Of the writer.
        sequence: Of the writer.
    """

    sealed_bytes: int
    lines: int
    first_line: int
    writer: int
    sequence: int

    @property
    def size(self) -> int:
        """Length of the chunk with its head."""
        return CHUNK_HEAD_BYTES + self.sealed_bytes


class LogSeal:
    """Seals and opens the chunks of one file.

    Args:
        key: The storage key; at least 32 bytes.
        log: Whose the file is.
        head: The file's head.

    Raises:
        LogDamaged: The head is not of a log file.
    """

    def __init__(self, key: bytes, log: LogId, head: bytes) -> None:
        if len(head) != FILE_HEAD_BYTES or not head.startswith(_MAGIC):
            raise LogDamaged(
                f"log {log.name} cannot be read", detail="its file does not begin as one of ours"
            )
        _, self.made_at_ns, salt = _FILE_HEAD.unpack(head)
        self._name = log.name
        self._about = head + f"{log.owner}/{log.name}/{log.log_identity}".encode()
        self._cipher = AESGCM(hmac.digest(key, b"gridstead log file" + salt, hashlib.sha256))

    def close(self, chunk: Chunk, *, first_line: int, position: int) -> bytes:
        """Return the bytes of a chunk that will stand at this position."""
        nonce = os.urandom(NONCE_BYTES)
        sealed_bytes = len(chunk.data) + TAG_BYTES
        head = _CHUNK_HEAD.pack(
            sealed_bytes,
            chunk.lines,
            first_line,
            chunk.timestamp_ns,
            chunk.writer,
            chunk.sequence,
            chunk.stream,
            nonce,
        )
        return head + self._cipher.encrypt(
            nonce, chunk.data, self._about + _POSITION.pack(position) + head
        )

    def open(self, record: bytes | memoryview, *, position: int) -> StoredChunk:
        """Return the chunk that stands at this position, from its bytes.

        Raises:
            LogDamaged: It is not what was written there.
        """
        head = bytes(record[:CHUNK_HEAD_BYTES])
        _, _, first_line, timestamp_ns, writer, sequence, stream, nonce = _CHUNK_HEAD.unpack(head)
        about = self._about + _POSITION.pack(position) + head
        try:
            data = self._cipher.decrypt(nonce, record[CHUNK_HEAD_BYTES:], about)
        except InvalidTag as err:
            raise LogDamaged(
                f"log {self._name} cannot be read", detail=f"its chunk at {position} is altered"
            ) from err
        chunk = Chunk(
            data=data,
            timestamp_ns=timestamp_ns,
            stream=Stream(stream),
            writer=writer,
            sequence=sequence,
        )
        return StoredChunk(
            chunk=chunk, start=position, end=position + len(record), first_line=first_line
        )


def new_head(now_ns: int) -> bytes:
    """Return the head of a new file."""
    return _FILE_HEAD.pack(_MAGIC, now_ns, os.urandom(SALT_BYTES))


def parse_chunk_head(data: bytes | memoryview) -> ChunkHead | None:
    """Return what a chunk's head tells, None if the bytes are too few or cannot be one."""
    if len(data) < CHUNK_HEAD_BYTES:
        return None
    sealed_bytes, lines, first_line, _, writer, sequence, _, _ = _CHUNK_HEAD.unpack_from(data)
    if not TAG_BYTES <= sealed_bytes <= MAX_SEALED_BYTES or not lines or not first_line:
        return None
    return ChunkHead(
        sealed_bytes=sealed_bytes,
        lines=lines,
        first_line=first_line,
        writer=writer,
        sequence=sequence,
    )
