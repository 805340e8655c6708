# SPDX-License-Identifier: Apache-2.0
"""Logs as files: ``<root>/<owner>/<log name>.log``, one record per line: nanoseconds, a space, the line.

What append() stored survives a crash of this process, as it is in the kernel's hands; sync() makes it survive a power
cut. A record that a crash cut short has no line end: readers do not see it, and the next append() removes it. A
position is the offset behind a record, so a reader goes on where it was.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from gridstead.domain.ids import is_address
from gridstead.domain.log_access import is_log_name
from gridstead.errors import InvalidInput, LogFull, LoggerUnavailable

MAX_LOG_BYTES = 256 * 1024 * 1024
READ_BYTES = 1024 * 1024

_SUFFIX = ".log"
_END = b"\n"


class FileLogs:
    """Implements port ``LogSink`` on a directory of its own.

    Args:
        root: An existing directory that this process alone writes.
        max_bytes: How large one log may become.
    """

    def __init__(self, root: Path, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def append(self, owner: str, log_name: str, lines: Sequence[bytes], timestamp_ns: int) -> None:
        """Store lines."""
        path = self._path(owner, log_name)
        records = b"".join(b"%d %s\n" % (timestamp_ns, line.replace(_END, b" ")) for line in lines)
        try:
            with self._lock:
                self._append(path, records)
        except OSError as err:
            raise LoggerUnavailable(f"could not write log {path.name}", detail=err.strerror) from err

    def sync(self, owner: str, log_name: str) -> None:
        """Make all lines of the log durable."""
        path = self._path(owner, log_name)
        try:
            for place in (path, path.parent, self._root):
                _fsync(place)
        except FileNotFoundError:
            return
        except OSError as err:
            raise LoggerUnavailable(f"could not write log {path.name}", detail=err.strerror) from err

    def read(self, owner: str, log_name: str, *, after: int) -> tuple[tuple[int, bytes, int], ...]:
        """Return lines after that position, as many as fit into a megabyte."""
        try:
            with self._path(owner, log_name).open("rb") as file:
                file.seek(after)
                records = _records(file.read(READ_BYTES))
        except FileNotFoundError:
            return ()
        lines = []
        position = after
        for record in records:
            position += len(record) + len(_END)
            timestamp_ns, _, data = record.partition(b" ")
            lines.append((position, data, int(timestamp_ns)))
        return tuple(lines)

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of this owner's logs."""
        folder = self._root / _safe(owner, is_address)
        return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}")))

    def _append(self, path: Path, records: bytes) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != _END:
                size = _cut_torn_record(fd, size)
            if size + len(records) > self._max_bytes:
                raise LogFull(f"log {path.name} is full", detail=f"its limit is {self._max_bytes} bytes")
            if os.write(fd, records) != len(records):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)

    def _path(self, owner: str, log_name: str) -> Path:
        return self._root / _safe(owner, is_address) / f"{_safe(log_name, is_log_name)}{_SUFFIX}"


def _safe(name: str, is_valid: Callable[[str], bool]) -> str:
    if not is_valid(name):
        raise InvalidInput(f"cannot be the name of a file: {name[:80]!r}")
    return name


def _records(chunk: bytes) -> list[bytes]:
    """Return the whole records of a chunk, without their ends."""
    whole, _, _ = chunk.rpartition(_END)
    return whole.split(_END) if _END in chunk else []


def _cut_torn_record(fd: int, size: int) -> int:
    """Remove what follows the last line end and return the new size."""
    start = max(0, size - READ_BYTES)
    end = start + os.pread(fd, READ_BYTES, start).rfind(_END) + 1
    os.ftruncate(fd, end)
    return end


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
