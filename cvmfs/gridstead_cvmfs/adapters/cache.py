# SPDX-License-Identifier: Apache-2.0
"""The content cache of a client: decompressed objects on the local disk, up to a maximum size."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from gridstead_cvmfs.adapters.catalogs import SqliteTreeCatalog
from gridstead_cvmfs.adapters.disk import (
    TEMPORARY_SUFFIX,
    write_errors_translated,
    write_temporary_file,
)
from gridstead_cvmfs.domain.objects import (
    ObjectKind,
    ObjectName,
    decompress_pieces,
    limit_pieces,
    verify_pieces,
)
from gridstead_cvmfs.errors import StorageFull

FOLDER_MODE = 0o700
STALE_AFTER_S = 3600
FRACTION_AFTER_EVICTION = 0.75  # size after an eviction, as a fraction of the maximum size


class DiskContent:
    """The content of an object in the cache. Implements port ``Content``.

    Args:
        descriptor: The descriptor of the open file. ``close`` closes the descriptor.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset``."""
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class DiskCache:
    """A cache in a folder. Implements port ``ContentCache``.

    Args:
        folder: The folder of the cache. No other program may write there.
        max_bytes: The maximum size of the cache.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        with write_errors_translated(folder):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            for temporary_file in folder.glob(f"*{TEMPORARY_SUFFIX}"):
                # A partial file that is older than STALE_AFTER_S was left by a killed client. A
                # newer file may be in use.
                if temporary_file.stat().st_mtime < time.time() - STALE_AFTER_S:
                    temporary_file.unlink(missing_ok=True)
            self._bytes = sum(size for _, size, _ in self._files())

    def open(self, name: ObjectName) -> DiskContent | None:
        """Return the content of an object, or None if the object is not in the cache."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        os.utime(descriptor)
        return DiskContent(descriptor)

    def put(
        self, name: ObjectName, pieces: Iterable[bytes], *, is_compressed: bool, limit: int
    ) -> DiskContent:
        """Add an object to the cache and return its content."""
        content = verify_pieces(name, pieces)
        if is_compressed:
            content = decompress_pieces(name, content, limit=limit)
        else:
            content = limit_pieces(name, content, limit)
        path = self._path(name)
        with write_errors_translated(self._folder):
            temporary_file = write_temporary_file(self._folder, content)
            self._make_room(temporary_file)
            content_file = DiskContent(os.open(temporary_file, os.O_RDONLY | os.O_CLOEXEC))
            path.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
            temporary_file.replace(path)
        return content_file

    def catalog(self, name: ObjectName) -> SqliteTreeCatalog | None:
        """Return a catalog, or None if the catalog is not in the cache."""
        content = self.open(name)  # also marks the catalog as recently used
        if content is None:
            return None
        content.close()
        return SqliteTreeCatalog(self._path(name), name)

    def _path(self, name: ObjectName) -> Path:
        return self._folder / name.path.removeprefix("data/")

    def _make_room(self, temporary_file: Path) -> None:
        """Add the size of a new file to the total, and evict files if the total is too large.

        Raises:
            StorageFull: If the file alone is larger than the cache. The file is removed.
        """
        size = temporary_file.stat().st_size
        if size > self._max_bytes:
            temporary_file.unlink()
            detail = f"it has {size} bytes, and the cache at most {self._max_bytes}"
            raise StorageFull(
                f"no room for an object in {self._folder}", detail=detail, hint="Raise cache_mib."
            )
        with self._lock:
            self._bytes += size
            if self._bytes > self._max_bytes:
                # _evict() counts only cached files. The new file is not cached yet, so reserve
                # its size.
                target = int(self._max_bytes * FRACTION_AFTER_EVICTION) - size
                self._evict(down_to=max(0, target), new_bytes=size)

    def _evict(self, *, down_to: int, new_bytes: int) -> None:
        """Remove cached files until at most ``down_to`` bytes remain, and update the total size.

        The least recently used files are removed first, but catalogs after all other files. The
        total size includes ``new_bytes``, the size of the file that is added next.
        """
        files = sorted(self._files(), key=_eviction_order)
        remaining_bytes = sum(size for _, size, _ in files)
        for _, size, path in files:
            if remaining_bytes <= down_to:
                break
            path.unlink(missing_ok=True)
            remaining_bytes -= size
        self._bytes = remaining_bytes + new_bytes

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of the last use, the size and the path of each cached file."""
        for path in self._folder.glob("??/*"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another process that uses this cache has removed the file
                continue
            yield status.st_mtime, status.st_size, path


def _eviction_order(file: tuple[float, int, Path]) -> tuple[bool, float]:
    last_used, _, path = file
    is_catalog = path.name.endswith(ObjectKind.CATALOG.value)
    return is_catalog, last_used
