# SPDX-License-Identifier: Apache-2.0
"""Logs as sealed files: ``<root>/<owner>/<log name>/<edition>.log``.

What append() stored survives a crash of this process, as it is in the kernel's hands; sync() makes
it survive a power cut. A chunk that a crash cut short is not seen by readers, and the next append()
removes it. Where a file ends and what its writers have sent is kept in memory and found anew, from
the chunks' heads, after a start.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gridstead.adapters.log_file import (
    CHUNK_HEAD_BYTES,
    FILE_HEAD_BYTES,
    LogSeal,
    new_head,
    parse_chunk_head,
)
from gridstead.adapters.log_tail import FULL, Tail, find_tail
from gridstead.domain.ids import is_address
from gridstead.domain.log import Chunk, LogId, StoredChunk, Stream, is_log_identity, is_log_name
from gridstead.domain.log_access import check_key
from gridstead.errors import ConfigError, InvalidInput, LogDamaged, LogFull, LoggerUnavailable

MAX_LOG_BYTES = 256 * 1024 * 1024
READ_BYTES = 1024 * 1024
MAX_TAILS = 4096

_SUFFIX = ".log"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is kept, and how long.

    Attributes:
        log_bytes: Of one log.
        owner_bytes: Of one owner's logs together; the oldest go first.
        age_s: Since a log's last line.
    """

    log_bytes: int = MAX_LOG_BYTES
    owner_bytes: int = 40 * MAX_LOG_BYTES
    age_s: int = 30 * 24 * 3600


class FileLogs:
    """Implements port ``LogSink`` on a directory of its own.

    Args:
        root: An existing directory that this process alone writes.
        key: What files are sealed with; at least 32 bytes.
        limits: How much is kept.

    Raises:
        ConfigError: The directory is not there, or another process has it, or the key is too short.
    """

    def __init__(self, root: Path, *, key: bytes, limits: Limits | None = None) -> None:
        check_key(key)
        self._root = root
        self._key = key
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._tails: OrderedDict[LogId, Tail] = OrderedDict()
        self._held = _hold(root / _LOCK)

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._held)

    def append(self, log: LogId, chunk: Chunk) -> None:
        """Store a chunk, unless its writer has stored it before."""
        with self._lock, _telling(log, "write"), _opened(self._path(log)) as fd:
            tail = self._tail(log, fd)
            if tail.full:
                raise self._full(log)
            if chunk.writer and chunk.sequence <= tail.writers.get(chunk.writer, 0):
                return
            if tail.end + CHUNK_HEAD_BYTES + len(chunk.data) > self._limits.log_bytes:
                self._append(fd, tail, self._last_words(chunk))
                raise self._full(log)
            self._append(fd, tail, chunk)

    def sync(self, log: LogId) -> None:
        """Make all lines of the log durable."""
        path = self._path(log)
        with _telling(log, "write"):
            tail = self._tails.get(log)
            places = (
                [path]
                if tail is not None and tail.named
                else [path, path.parent, path.parent.parent, self._root]
            )
            with suppress(FileNotFoundError):
                for place in places:
                    _fsync(place)
            if tail is not None:
                tail.named = True

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        """Return the chunks behind a position, about a megabyte of them."""
        with _telling(log, "read"):
            try:
                fd = os.open(self._path(log), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                return ()
            try:
                return self._read(fd, log, after)
            finally:
                os.close(fd)

    def newest(self, owner: str, name: str) -> LogId | None:
        """Return the edition that was begun last, None if there is none."""
        folder = self._root / _safe(owner, is_address) / _safe(name, is_log_name)
        found = []
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                log_identity = path.name.removesuffix(_SUFFIX)
                if is_log_identity(log_identity) and path.stat().st_size >= FILE_HEAD_BYTES:
                    log = LogId(owner=owner, name=name, log_identity=log_identity)
                    with path.open("rb") as file:
                        found.append(
                            (
                                LogSeal(self._key, log, file.read(FILE_HEAD_BYTES)).made_at_ns,
                                log_identity,
                                log,
                            )
                        )
        return max(found)[2] if found else None

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of this owner's logs."""
        folder = self._root / _safe(owner, is_address)
        return tuple(sorted({path.parent.name for path in folder.glob(f"*/*{_SUFFIX}")}))

    def sweep(self, now: int) -> int:
        """Remove what is too old or too much, and return how many logs went."""
        with self._lock:
            return sum(
                self._sweep(folder, now)
                for folder in self._root.iterdir()
                if is_address(folder.name)
            )

    def _sweep(self, folder: Path, now: int) -> int:
        kept = removed = 0
        newest_first = sorted(
            ((path.stat(), path) for path in folder.glob("*/*.log")),
            key=lambda one: -one[0].st_mtime,
        )
        for stat, path in newest_first:
            kept += stat.st_size
            if now - stat.st_mtime > self._limits.age_s or kept > self._limits.owner_bytes:
                path.unlink()
                self._tails.pop(
                    LogId(owner=folder.name, name=path.parent.name, log_identity=path.stem), None
                )
                kept -= stat.st_size
                removed += 1
                with suppress(OSError):  # it has other editions
                    path.parent.rmdir()
        return removed

    def _tail(self, log: LogId, fd: int) -> Tail:
        """Return where the log ends; a new file gets its head, a torn one is mended."""
        tail = self._tails.get(log)
        if tail is None or os.fstat(fd).st_size < tail.end:  # somebody removed the file
            if os.fstat(fd).st_size < FILE_HEAD_BYTES:
                os.ftruncate(fd, 0)
                _write(fd, new_head(time.time_ns()), 0)
            tail = find_tail(
                fd, LogSeal(self._key, log, os.pread(fd, FILE_HEAD_BYTES, 0)), self._path(log)
            )
            self._tails[log] = tail
            if len(self._tails) > MAX_TAILS:
                self._tails.popitem(last=False)
        self._tails.move_to_end(log)
        return tail

    def _append(self, fd: int, tail: Tail, chunk: Chunk) -> None:
        record = tail.seal.close(chunk, first_line=tail.next_line, position=tail.end)
        _write(fd, record, tail.end)
        tail.add(len(record), lines=chunk.lines, writer=chunk.writer, sequence=chunk.sequence)

    def _last_words(self, chunk: Chunk) -> Chunk:
        text = f"gridstead: this log has reached its limit of {self._limits.log_bytes} bytes; what follows is not kept"
        return Chunk(
            data=text.encode(), timestamp_ns=chunk.timestamp_ns, stream=Stream.GRID, sequence=FULL
        )

    def _full(self, log: LogId) -> LogFull:
        return LogFull(
            f"log {log.name} is full", detail=f"its limit is {self._limits.log_bytes} bytes"
        )

    def _read(self, fd: int, log: LogId, after: int) -> tuple[StoredChunk, ...]:
        seal = LogSeal(self._key, log, os.pread(fd, FILE_HEAD_BYTES, 0))
        position = max(after, FILE_HEAD_BYTES)
        data = os.pread(fd, READ_BYTES, position)
        head = parse_chunk_head(data)
        if head is None and len(data) >= CHUNK_HEAD_BYTES:
            raise LogDamaged(
                f"log {log.name} cannot be read", detail=f"there is no chunk at {position}"
            )
        if head is not None and head.size > len(data):
            data = os.pread(fd, head.size, position)
        view = memoryview(data)
        chunks = []
        while head is not None and head.size <= len(view):
            chunks.append(seal.open(view[: head.size], position=position))
            position += head.size
            view = view[head.size :]
            head = parse_chunk_head(view)
        return tuple(chunks)

    def _path(self, log: LogId) -> Path:
        folder = self._root / _safe(log.owner, is_address) / _safe(log.name, is_log_name)
        return folder / f"{_safe(log.log_identity, is_log_identity)}{_SUFFIX}"


def _hold(path: Path) -> int:
    """Return a descriptor that keeps other processes out as long as it is open."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise ConfigError(f"cannot keep logs in {path.parent}", detail=err.strerror) from err
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(fd)
        raise ConfigError(
            f"cannot keep logs in {path.parent}", detail="another logger has it"
        ) from err
    return fd


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _telling(log: LogId, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise LoggerUnavailable(f"could not {verb} log {log.name}", detail=err.strerror) from err


def _write(fd: int, data: bytes, position: int) -> None:
    """Write all of it or nothing."""
    if os.pwrite(fd, data, position) != len(data):
        os.ftruncate(fd, position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _safe(name: str, is_valid: Callable[[str], bool]) -> str:
    if not is_valid(name):
        raise InvalidInput(f"cannot be the name of a file: {name[:80]!r}")
    return name


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
