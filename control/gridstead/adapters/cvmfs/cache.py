# SPDX-License-Identifier: Apache-2.0
"""A client's cache: objects on the local disk, unpacked, under their names, until there are too
many.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from gridstead.adapters.cvmfs.catalogs import SqliteTreeCatalog
from gridstead.adapters.cvmfs.disk import PART, write_part, writing
from gridstead.domain.cvmfs.objects import ObjectKind, ObjectName, inflated, limited, verified
from gridstead.errors import StorageFull

FOLDER_MODE = 0o700
FORGOTTEN_S = 3600
KEEP = 0.75  # of a cache that is full


class DiskContent:
    """Implements port ``Content``.

    Args:
        descriptor: Of the open file; closed with this.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, size: int, offset: int) -> bytes:
        """Return bytes from there on."""
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


class DiskCache:
    """Implements port ``ContentCache``.

    Args:
        folder: Nobody else writes there.
        max_bytes: What it may hold.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        with writing(folder):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            for part in folder.glob(f"*{PART}"):
                if part.stat().st_mtime < time.time() - FORGOTTEN_S:  # of a client that was killed
                    part.unlink(missing_ok=True)
            self._bytes = sum(size for _, size, _ in self._files())

    def open(self, name: ObjectName) -> DiskContent | None:
        """Return what an object holds."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        os.utime(descriptor)
        return DiskContent(descriptor)

    def put(
        self, name: ObjectName, pieces: Iterable[bytes], *, packed: bool, limit: int
    ) -> DiskContent:
        """Keep an object."""
        right = verified(name, pieces)
        content = inflated(name, right, limit=limit) if packed else limited(name, right, limit)
        path = self._path(name)
        with writing(self._folder):
            part = write_part(self._folder, content)
            self._make_room(part)
            opened = DiskContent(os.open(part, os.O_RDONLY | os.O_CLOEXEC))
            path.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
            part.replace(path)
        return opened

    def catalog(self, name: ObjectName) -> SqliteTreeCatalog | None:
        """Return a catalog."""
        opened = self.open(name)
        if opened is None:
            return None
        opened.close()
        return SqliteTreeCatalog(self._path(name), name)

    def _path(self, name: ObjectName) -> Path:
        return self._folder / name.path.removeprefix("data/")

    def _make_room(self, part: Path) -> None:
        """Count a file that is about to come, and remove what was not used for longest if that is
        too much.

        Raises:
            StorageFull: It alone is more than may be here; it is removed.
        """
        size = part.stat().st_size
        if size > self._max_bytes:
            part.unlink()
            detail = f"it has {size} bytes, the cache {self._max_bytes}"
            raise StorageFull(
                f"no room for an object in {self._folder}", detail=detail, hint="Raise cache_mib."
            )
        with self._lock:
            self._bytes += size
            if self._bytes > self._max_bytes:
                self._evict(down_to=max(0, int(self._max_bytes * KEEP) - size), coming=size)

    def _evict(self, *, down_to: int, coming: int) -> None:
        files = sorted(
            self._files(),
            key=lambda file: (file[2].name.endswith(ObjectKind.CATALOG.value), file[0]),
        )
        left = sum(size for _, size, _ in files)
        for _, size, path in files:
            if left <= down_to:
                break
            path.unlink(missing_ok=True)
            left -= size
        self._bytes = left + coming

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield when each was used last, its size and its path."""
        for path in self._folder.glob("??/*"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another client of this cache removed it
                continue
            yield status.st_mtime, status.st_size, path
