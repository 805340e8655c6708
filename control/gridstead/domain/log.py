# SPDX-License-Identifier: Apache-2.0
"""A job's output as values.

A log has a name, that of its Slurm job, and readers of the old wire ask by it. Names are counters
and start again with a chain, so a log is one *edition* of its name: what the job is bound to, its
job key, makes it. Output comes in *chunks*, each some whole lines of one stream; lines are numbered
from 1 over the whole log.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import IntEnum

from gridstead.domain.ids import JobKey

MAX_LINE_BYTES = 256 * 1024
MAX_SEQUENCE = 2**63 - 1
LINE_END = b"\n"

_LOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LOG_IDENTITY = re.compile(r"[0-9a-f]{32}")
_LOG_IDENTITY_LENGTH = 32


class Stream(IntEnum):
    """Where a line came from; the numbers are the wire's."""

    UNKNOWN = 0
    STDOUT = 1
    STDERR = 2
    GRID = 3
    """Not of the job: what the writer or the logger has to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogId:
    """One log.

    Attributes:
        owner: The customer's address, lower case.
        name: The job's Slurm name.
        edition: Which job of this name: 32 hexadecimal digits.
    """

    owner: str
    name: str
    log_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some lines of one stream, written together.

    Attributes:
        data: The lines, with a line feed between each two and none after the last.
        timestamp_ns: When they were written, nanoseconds since the epoch, by the writer's clock.
        stream: Where they came from.
        writer: Tells one run of a writer from another; 0 for writers that do not number their
            chunks.
        sequence: The writer's number of this chunk, from 1 and rising; 0 for writers that do not
            number them.
    """

    data: bytes
    timestamp_ns: int
    stream: Stream = Stream.UNKNOWN
    writer: int = 0
    sequence: int = 0

    @property
    def lines(self) -> int:
        """How many lines it has; an empty one is one empty line."""
        return self.data.count(LINE_END) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk in its log.

    Attributes:
        chunk: What was written.
        start: Position of the chunk. Positions are to be handed back, not to be computed with.
        end: Position behind it.
        first_line: Number of its first line, from 1.
    """

    chunk: Chunk
    start: int
    end: int
    first_line: int


def is_log_name(text: str) -> bool:
    """Return whether the text can name a log; such a name is also a safe file name."""
    return _LOG_NAME.fullmatch(text) is not None


def is_log_identity(text: str) -> bool:
    """Return whether the text can be an edition."""
    return _LOG_IDENTITY.fullmatch(text) is not None


def log_identity_of(job_key: JobKey) -> str:
    """Return the edition of a job's log: of SHA-256 over its job key, which no other job of any
    chain has.
    """
    return hashlib.sha256(str(job_key).encode()).hexdigest()[:_LOG_IDENTITY_LENGTH]


def to_chunk_data(message: bytes) -> bytes:
    """Return what one message of a writer says, as a chunk's data: its last line end is no line of
    its own.
    """
    return message.removesuffix(LINE_END).replace(b"\r\n", LINE_END).removesuffix(b"\r")


def to_lines(data: bytes) -> list[bytes]:
    """Return the lines of a chunk."""
    return data.split(LINE_END)
