# SPDX-License-Identifier: Apache-2.0
"""Serves the tree of a repository as a read-only file system over FUSE.

Rule 1: every GridsteadError becomes EIO, and the client logs the reason.
Rule 2: the kernel checks permissions with the owners and modes that the repository publishes.
Rule 3: requests for extended attributes and locks return ENOSYS. After the first such answer, the
kernel sends no more requests of that kind.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

# Unlike older versions, fuse3 accepts the descriptor of an open device.
os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
import mfusepy

from gridstead.errors import GridsteadError
from gridstead_cvmfs.domain.tree import TreeEntry, parent_of

KERNEL_CACHE_S = 1  # the time for which the kernel caches attributes and names
BLOCK_BYTES = 512
PREFERRED_BLOCK_BYTES = 128 * 1024
THREADS = 16
NS_PER_S = 10**9
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class MountedFiles(Protocol):
    """The served files. Every method except ``release`` may raise a GridsteadError."""

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry at a path. None if there is no entry."""
        ...

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return the entries of a directory."""
        ...

    def open(self, path: str) -> tuple[int, bool] | None:
        """Return a file handle, and whether the kernel's cached content is still valid.

        Returns None if there is no such file.
        """
        ...

    def read(self, handle_id: int, size: int, offset: int) -> bytes:
        """Return bytes of an open file."""
        ...

    def release(self, handle_id: int) -> None:
        """Close a file handle."""
        ...


class Operations:
    """The operations that libfuse calls. For all other operations, libfuse returns ENOSYS.

    Args:
        files: The served files.
    """

    use_ns = True

    def __init__(self, files: MountedFiles) -> None:
        self._files = files

    # The path also identifies an open file, so ``fh`` is not used.
    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:  # noqa: ARG002
        """Return the fields of stat(2)."""
        return _attributes(self._entry(path))

    def readlink(self, path: str) -> str:
        """Return the target of a symbolic link."""
        return self._entry(path).target

    # Directories have no handles, so ``fh`` is not used.
    def readdir(
        self,
        path: str,
        fh: int,  # noqa: ARG002
    ) -> Iterator[tuple[str, dict[str, int], int]]:
        """Yield the entries of a directory."""
        with _errors_as_eio():
            entries = self._files.entries(_tree_path(path))
        yield ".", _directory_attributes(self._entry(path)), 0
        yield "..", _directory_attributes(self._entry(parent_of(path))), 0
        for entry in entries:
            yield entry.name, _directory_attributes(entry), 0

    def open(self, path: str, fi: Any) -> int:  # noqa: ANN401 - a C structure
        """Open a file."""
        if fi.flags & WRITE_FLAGS:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        with _errors_as_eio():
            opened_file = self._files.open(_tree_path(path))
        if opened_file is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        fi.fh, fi.keep_cache = opened_file
        return 0

    # ``fh`` is a C structure.
    def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:  # noqa: ANN401, ARG002
        """Return bytes of an open file."""
        with _errors_as_eio():
            return self._files.read(fh.fh, size, offset)

    def release(self, path: str, fh: Any) -> int:  # noqa: ANN401, ARG002 - a C structure
        """Close a file."""
        self._files.release(fh.fh)
        return 0

    def _entry(self, path: str) -> TreeEntry:
        with _errors_as_eio():
            entry = self._files.entry(_tree_path(path))
        if entry is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return entry


def serve(files: MountedFiles, device: int) -> None:
    """Answer requests of the kernel until the file system is unmounted and no process uses it.

    Args:
        files: The served files.
        device: The descriptor of ``/dev/fuse`` that the mount uses.
    """
    mfusepy.FUSE(
        Operations(files),
        f"/dev/fd/{device}",
        raw_fi=True,
        foreground=True,
        use_ino=True,
        attr_timeout=KERNEL_CACHE_S,
        entry_timeout=KERNEL_CACHE_S,
        negative_timeout=KERNEL_CACHE_S,
        max_threads=THREADS,
        max_idle_threads=THREADS,
    )


@contextmanager
def _errors_as_eio() -> Iterator[None]:
    try:
        yield
    except GridsteadError as error:
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from error


def _tree_path(path: str) -> str:
    return "" if path == "/" else path


def _directory_attributes(entry: TreeEntry) -> dict[str, int]:
    return {"st_mode": entry.mode, "st_ino": entry.inode}


def _attributes(entry: TreeEntry) -> dict[str, int]:
    is_device = not (entry.is_file or entry.is_directory or entry.is_link)
    # The entry of a device contains the device number instead of a size.
    device = entry.size if is_device else 0
    size = 0 if device else entry.size
    return {
        "st_mode": entry.mode,
        "st_ino": entry.inode,
        "st_nlink": entry.links,
        "st_uid": entry.uid,
        "st_gid": entry.gid,
        "st_rdev": device,
        "st_size": size,
        "st_blksize": PREFERRED_BLOCK_BYTES,
        "st_blocks": (size + BLOCK_BYTES - 1) // BLOCK_BYTES,  # rounded up
        "st_atime": entry.mtime * NS_PER_S,
        "st_mtime": entry.mtime * NS_PER_S,
        "st_ctime": entry.mtime * NS_PER_S,
    }
