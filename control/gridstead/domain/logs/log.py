# SPDX-License-Identifier: Apache-2.0
"""The values of a job's output: its log and the chunks of the log.

The name of a log is the name of its Slurm job. DeepSquare's clients request a log by this name. The
name contains the job number, and job numbers start again on a new chain, so several logs can have
the same name. The *log identity*, which is derived from the job key, is unique. Output is
stored in *chunks*. A chunk is one or more whole lines of one stream. The lines of a log are
numbered from 1.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import IntEnum

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.jobs.job import Job

MAX_LINE_BYTES = 256 * 1024
MAX_SEQUENCE = 2**63 - 1
LINE_END = b"\n"

_LOG_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LOG_IDENTITY = re.compile(r"[0-9a-f]{32}")
_LOG_IDENTITY_LENGTH = 32


class Stream(IntEnum):
    """The source of a line. The wire format uses these numbers."""

    UNKNOWN = 0
    STDOUT = 1
    STDERR = 2
    GRID = 3
    """A message of the writer or the logger, not output of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogId:
    """The key of a log.

    Attributes:
        owner: The customer's address, lower case.
        name: The name of the Slurm job.
        log_identity: Identifies the log among the logs with this name. 32 hexadecimal digits.
    """

    owner: str
    name: str
    log_identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Lines of one stream that were written together.

    Attributes:
        data: The lines, separated by line feeds. No line feed follows the last line.
        timestamp_ns: When the lines were written, by the writer's clock. Unit: ns since 1970, UTC.
        stream: The source of the lines.
        writer: Identifies a run of the writer, the program that sent the lines. 0 if the writer
            does not number its chunks.
        sequence: The number of the chunk in this run, from 1, increasing. 0 if the writer does not
            number its chunks.
    """

    data: bytes
    timestamp_ns: int
    stream: Stream = Stream.UNKNOWN
    writer: int = 0
    sequence: int = 0

    @property
    def line_count(self) -> int:
        """The number of lines. An empty chunk has one empty line."""
        return self.data.count(LINE_END) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk at its position in a log.

    Attributes:
        chunk: The chunk.
        start: The position of the chunk. Positions are opaque: do not calculate with them.
        end: The position after the chunk.
        first_line: The number of the chunk's first line, from 1.
    """

    chunk: Chunk
    start: int
    end: int
    first_line: int


def is_log_name(text: str) -> bool:
    """Return whether a text is a valid name of a log. Such a name is also a safe file name."""
    return _LOG_NAME.fullmatch(text) is not None


def is_log_identity(text: str) -> bool:
    """Return whether a text has the form of a log identity."""
    return _LOG_IDENTITY.fullmatch(text) is not None


def log_identity_of(job_key: JobKey) -> str:
    """Return the log identity of a job: the first half of the SHA-256 of its job key.

    No other job of any chain has this job key.
    """
    return hashlib.sha256(str(job_key).encode()).hexdigest()[:_LOG_IDENTITY_LENGTH]


def log_of(job: Job) -> LogId:
    """Return the log of a job."""
    return LogId(
        owner=job.customer, name=job.id.slurm_job_name, log_identity=log_identity_of(job.job_key)
    )


def to_chunk_data(message: bytes) -> bytes:
    """Return a message of a writer as the data of a chunk.

    A line end at the end of the message is removed. Each CR LF becomes a line feed.
    """
    return message.removesuffix(LINE_END).replace(b"\r\n", LINE_END).removesuffix(b"\r")


def to_lines(data: bytes) -> list[bytes]:
    """Return the lines of a chunk."""
    return data.split(LINE_END)
