# SPDX-License-Identifier: Apache-2.0
"""Stores logs as sealed files: ``<root>/<owner>/<log name>/<log identity>.log``.

After append(), the data survives a crash of this process, because the kernel has the data. After
sync(), the data survives a power cut. A crash can leave a partial chunk: readers ignore the partial
chunk, and the next append() removes it. The end of each file and the sequence numbers of the file's
writers are cached in memory. After a start of the process, these numbers are read from the headers
of the chunks.
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

from gridstead.adapters.disk import sync
from gridstead.adapters.logs.file import (
    CHUNK_HEADER_BYTES,
    FILE_HEADER_BYTES,
    LogSeal,
    new_file_header,
    parse_chunk_header,
)
from gridstead.adapters.logs.tail import FULL_SEQUENCE, Tail, find_tail
from gridstead.domain.jobs.ids import is_address
from gridstead.domain.logs.access import check_key_length
from gridstead.domain.logs.log import (
    Chunk,
    LogId,
    StoredChunk,
    Stream,
    is_log_identity,
    is_log_name,
)
from gridstead.errors import ConfigError, InvalidInput, LogDamaged, LogFull, LoggerUnavailable

MAX_LOG_BYTES = 256 * 1024 * 1024
READ_BYTES = 1024 * 1024
MAX_TAILS = 4096

_LOG_SUFFIX = ".log"
_LOCK_FILE = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the stored logs.

    Attributes:
        log_bytes: Maximum size of a log.
        owner_bytes: Maximum size of all logs of an owner. The oldest logs are deleted first.
        age_s: Time for which a log is kept after its last line.
    """

    log_bytes: int = MAX_LOG_BYTES
    owner_bytes: int = 40 * MAX_LOG_BYTES
    age_s: int = 30 * 24 * 3600


class FileLogs:
    """Implements port ``LogStore`` with files in a directory.

    Args:
        root: An existing directory that no other process uses.
        key: The key that encrypts the files, at least 32 bytes.
        limits: The limits of the stored logs.

    Raises:
        ConfigError: If the directory does not exist, another process has locked it, or the key is
            too short.
    """

    def __init__(self, root: Path, *, key: bytes, limits: Limits | None = None) -> None:
        check_key_length(key)
        self._root = root
        self._key = key
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._tails: OrderedDict[LogId, Tail] = OrderedDict()
        self._lock_fd = _lock_directory(root / _LOCK_FILE)

    def close(self) -> None:
        """Unlock the directory."""
        os.close(self._lock_fd)

    def append(self, log: LogId, chunk: Chunk) -> None:
        """Store a chunk. A chunk that is already stored is ignored."""
        with self._lock, _translated_errors(log, "write"), _open_for_append(self._path(log)) as fd:
            tail = self._tail(log, fd)
            if tail.is_full:
                raise self._full_error(log)
            if chunk.writer and chunk.sequence <= tail.writers.get(chunk.writer, 0):
                return  # The file has the chunk already.
            if tail.end + CHUNK_HEADER_BYTES + len(chunk.data) > self._limits.log_bytes:
                self._append(fd, tail, self._full_notice(chunk))
                raise self._full_error(log)
            self._append(fd, tail, chunk)

    def sync(self, log: LogId) -> None:
        """Make all lines of the log durable."""
        path = self._path(log)
        with _translated_errors(log, "write"):
            tail = self._tails.get(log)
            paths = [path]
            if tail is None or not tail.is_name_durable:
                paths += [path.parent, path.parent.parent, self._root]
            with suppress(FileNotFoundError):
                for changed_path in paths:
                    sync(changed_path)
            if tail is not None:
                tail.is_name_durable = True

    def read(self, log: LogId, *, after: int) -> tuple[StoredChunk, ...]:
        """Return the next chunks after a position: at most about a megabyte."""
        with _translated_errors(log, "read"):
            try:
                fd = os.open(self._path(log), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                return ()
            try:
                return self._read(fd, log, after)
            finally:
                os.close(fd)

    def newest(self, owner: str, name: str) -> LogId | None:
        """Return the newest log of this name. Returns None if the owner has no such log."""
        folder = self._root / _safe_name(owner, is_address) / _safe_name(name, is_log_name)
        logs: list[tuple[int, str]] = []
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                log_identity = path.name.removesuffix(_LOG_SUFFIX)
                if is_log_identity(log_identity) and path.stat().st_size >= FILE_HEADER_BYTES:
                    log = LogId(owner=owner, name=name, log_identity=log_identity)
                    logs.append((self._read_creation_time_ns(log, path), log_identity))
        if not logs:
            return None
        _, newest_identity = max(logs)
        return LogId(owner=owner, name=name, log_identity=newest_identity)

    def _read_creation_time_ns(self, log: LogId, path: Path) -> int:
        with path.open("rb") as file:
            return LogSeal(self._key, log, file.read(FILE_HEADER_BYTES)).created_at_ns

    def names(self, owner: str) -> tuple[str, ...]:
        """Return the names of this owner's logs."""
        folder = self._root / _safe_name(owner, is_address)
        return tuple(sorted({path.parent.name for path in folder.glob(f"*/*{_LOG_SUFFIX}")}))

    def sweep(self, now: int) -> int:
        """Delete logs that are too old or exceed the limits. Return the number of deleted logs."""
        with self._lock:
            folders = [folder for folder in self._root.iterdir() if is_address(folder.name)]
            return sum(self._sweep(folder, now) for folder in folders)

    def _sweep(self, folder: Path, now: int) -> int:
        files = [(path.stat(), path) for path in folder.glob(f"*/*{_LOG_SUFFIX}")]
        # From the newest log to the oldest. A log that is deleted does not count towards the size.
        total_bytes = removed_count = 0
        for stat, path in sorted(files, key=lambda file: file[0].st_mtime, reverse=True):
            total_bytes += stat.st_size
            is_too_old = now - stat.st_mtime > self._limits.age_s
            if not is_too_old and total_bytes <= self._limits.owner_bytes:
                continue
            path.unlink()
            log = LogId(owner=folder.name, name=path.parent.name, log_identity=path.stem)
            self._tails.pop(log, None)
            total_bytes -= stat.st_size
            removed_count += 1
            with suppress(OSError):  # the folder still has logs of other identities
                path.parent.rmdir()
        return removed_count

    def _tail(self, log: LogId, fd: int) -> Tail:
        """Return the tail of a log. Write the header of a new file, and repair a damaged file."""
        tail = self._tails.get(log)
        if tail is None or os.fstat(fd).st_size < tail.end:  # the file was removed
            if os.fstat(fd).st_size < FILE_HEADER_BYTES:
                os.ftruncate(fd, 0)
                _write(fd, new_file_header(time.time_ns()), 0)
            seal = LogSeal(self._key, log, os.pread(fd, FILE_HEADER_BYTES, 0))
            tail = find_tail(fd, seal, self._path(log))
            self._tails[log] = tail
            if len(self._tails) > MAX_TAILS:
                self._tails.popitem(last=False)
        self._tails.move_to_end(log)
        return tail

    def _append(self, fd: int, tail: Tail, chunk: Chunk) -> None:
        record = tail.seal.seal(chunk, first_line=tail.next_line, position=tail.end)
        _write(fd, record, tail.end)
        tail.add(len(record), lines=chunk.line_count, writer=chunk.writer, sequence=chunk.sequence)

    def _full_notice(self, chunk: Chunk) -> Chunk:
        limit = self._limits.log_bytes
        text = (
            f"gridstead: this log has reached its limit of {limit} bytes; what follows is not kept"
        )
        return Chunk(
            data=text.encode(),
            timestamp_ns=chunk.timestamp_ns,
            stream=Stream.GRID,
            sequence=FULL_SEQUENCE,
        )

    def _full_error(self, log: LogId) -> LogFull:
        return LogFull(
            f"log {log.name} is full", detail=f"the limit is {self._limits.log_bytes} bytes"
        )

    def _read(self, fd: int, log: LogId, after: int) -> tuple[StoredChunk, ...]:
        seal = LogSeal(self._key, log, os.pread(fd, FILE_HEADER_BYTES, 0))
        position = max(after, FILE_HEADER_BYTES)
        data = os.pread(fd, READ_BYTES, position)
        header = parse_chunk_header(data)
        if header is None and len(data) >= CHUNK_HEADER_BYTES:
            raise LogDamaged(
                f"cannot read log {log.name}", detail=f"there is no chunk at {position}"
            )
        # If the first chunk is larger than the data that was read, only this chunk is returned.
        if header is not None and header.size > len(data):
            data = os.pread(fd, header.size, position)
        view = memoryview(data)
        chunks = []
        while header is not None and header.size <= len(view):
            chunks.append(seal.open(view[: header.size], position=position))
            position += header.size
            view = view[header.size :]
            header = parse_chunk_header(view)
        return tuple(chunks)

    def _path(self, log: LogId) -> Path:
        folder = self._root / _safe_name(log.owner, is_address) / _safe_name(log.name, is_log_name)
        return folder / f"{_safe_name(log.log_identity, is_log_identity)}{_LOG_SUFFIX}"


def _lock_directory(path: Path) -> int:
    """Return a file descriptor. The directory is locked until the descriptor is closed."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as err:
        raise ConfigError(f"cannot store logs in {path.parent}", detail=err.strerror) from err
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(fd)
        raise ConfigError(
            f"cannot store logs in {path.parent}", detail="another process has locked it"
        ) from err
    return fd


@contextmanager
def _open_for_append(path: Path) -> Iterator[int]:
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _translated_errors(log: LogId, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise LoggerUnavailable(f"could not {verb} log {log.name}", detail=err.strerror) from err


def _write(fd: int, data: bytes, position: int) -> None:
    """Write all data, or nothing."""
    if os.pwrite(fd, data, position) != len(data):
        os.ftruncate(fd, position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _safe_name(name: str, is_valid: Callable[[str], bool]) -> str:
    if not is_valid(name):
        raise InvalidInput(f"invalid file name {name[:80]!r}")
    return name
