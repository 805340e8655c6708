# SPDX-License-Identifier: Apache-2.0
"""The format of a log file: a file header, then chunks, each sealed with AES-256-GCM.

A file has its own key, which is derived from the storage key and the salt in its header. The header
of a chunk is not encrypted. The seal authenticates the chunk header, the file header, the log id
and the position of the chunk. So a chunk that was altered, moved, or copied to another log cannot
be opened. The seal does not detect that the end of a file is missing.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gridstead.domain.logs.log import Chunk, LogId, StoredChunk, Stream
from gridstead.errors import LogDamaged

MAX_SEALED_BYTES = 8 * 1024 * 1024  # more than any message that the server accepts
SALT_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16

_MAGIC = b"GRIDLOG1"
_FILE_HEADER = struct.Struct(f">8sq{SALT_BYTES}s")  # magic, creation time (ns), salt
# Length of the sealed lines, number of lines, first line, time (ns), writer, sequence number,
# stream, nonce.
_CHUNK_HEADER = struct.Struct(f">IIQqQQB{NONCE_BYTES}s")
_POSITION = struct.Struct(">Q")

FILE_HEADER_BYTES = _FILE_HEADER.size
CHUNK_HEADER_BYTES = _CHUNK_HEADER.size


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHeader:
    """The fields of a chunk's header that are used without opening the chunk.

    Attributes:
        sealed_bytes: Length of the sealed lines.
        lines: Number of lines.
        first_line: Number of the first line, from 1.
        writer: Id of the writer.
        sequence: Number that the writer has given the chunk.
    """

    sealed_bytes: int
    lines: int
    first_line: int
    writer: int
    sequence: int

    @property
    def size(self) -> int:
        """Length of the chunk with its header."""
        return CHUNK_HEADER_BYTES + self.sealed_bytes


class LogSeal:
    """Seals and opens the chunks of one file.

    Args:
        key: The storage key, at least 32 bytes.
        log: The log that the file contains.
        header: The file header.

    Raises:
        LogDamaged: If the header is not that of a log file.
    """

    def __init__(self, key: bytes, log: LogId, header: bytes) -> None:
        if len(header) != FILE_HEADER_BYTES or not header.startswith(_MAGIC):
            raise LogDamaged(
                f"cannot read log {log.name}", detail="the file has no log file header"
            )
        self.created_at_ns: int
        _, self.created_at_ns, salt = _FILE_HEADER.unpack(header)
        self._name = log.name
        self._file_context = header + f"{log.owner}/{log.name}/{log.log_identity}".encode()
        self._cipher = AESGCM(hmac.digest(key, b"gridstead log file" + salt, hashlib.sha256))

    def seal(self, chunk: Chunk, *, first_line: int, position: int) -> bytes:
        """Return the sealed bytes of a chunk for this position."""
        nonce = os.urandom(NONCE_BYTES)
        sealed_bytes = len(chunk.data) + TAG_BYTES
        header = _CHUNK_HEADER.pack(
            sealed_bytes,
            chunk.line_count,
            first_line,
            chunk.timestamp_ns,
            chunk.writer,
            chunk.sequence,
            chunk.stream,
            nonce,
        )
        associated_data = self._file_context + _POSITION.pack(position) + header
        return header + self._cipher.encrypt(nonce, chunk.data, associated_data)

    def open(self, record: bytes | memoryview, *, position: int) -> StoredChunk:
        """Return the chunk at this position from its sealed bytes.

        Raises:
            LogDamaged: If these are not the bytes that were written at this position.
        """
        header = bytes(record[:CHUNK_HEADER_BYTES])
        fields = _CHUNK_HEADER.unpack(header)
        _, _, first_line, timestamp_ns, writer, sequence, stream, nonce = fields
        associated_data = self._file_context + _POSITION.pack(position) + header
        try:
            data = self._cipher.decrypt(nonce, record[CHUNK_HEADER_BYTES:], associated_data)
        except InvalidTag as err:
            raise LogDamaged(
                f"cannot read log {self._name}", detail=f"the chunk at {position} was altered"
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


def new_file_header(now_ns: int) -> bytes:
    """Return the header of a new file."""
    return _FILE_HEADER.pack(_MAGIC, now_ns, os.urandom(SALT_BYTES))


def parse_chunk_header(data: bytes | memoryview) -> ChunkHeader | None:
    """Return a chunk's header. Returns None if the data does not start with a header."""
    if len(data) < CHUNK_HEADER_BYTES:
        return None
    sealed_bytes, lines, first_line, _, writer, sequence, _, _ = _CHUNK_HEADER.unpack_from(data)
    if not TAG_BYTES <= sealed_bytes <= MAX_SEALED_BYTES or not lines or not first_line:
        return None
    return ChunkHeader(
        sealed_bytes=sealed_bytes,
        lines=lines,
        first_line=first_line,
        writer=writer,
        sequence=sequence,
    )
