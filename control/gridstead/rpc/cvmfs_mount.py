# SPDX-License-Identifier: Apache-2.0
"""Shows a repository's tree as a file system, over FUSE: to read, and nothing else.

Rule 1: what fails is EIO; the client that is asked has logged it. Rule 2: the kernel checks
permissions, owners and modes as they were published. Rule 3: what is not implemented (extended
attributes, locks) the kernel learns once and does not ask again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

os.environ.setdefault(
    "FUSE_LIBRARY_NAME", "fuse3"
)  # only this one takes a device that is open already
import mfusepy

from gridstead.domain.cvmfs.tree import TreeEntry, parent_of
from gridstead.errors import GridsteadError

KERNEL_S = 1  # how long the kernel goes by what it was told
BLOCK_BYTES = 512
PREFERRED_BYTES = 128 * 1024
THREADS = 16
NS = 10**9
WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class Files(Protocol):
    """What is shown. Every method but ``release`` may raise an error of ours."""

    def entry(self, path: str) -> TreeEntry | None:
        """Return what is at a path."""
        ...

    def entries(self, path: str) -> tuple[TreeEntry, ...]:
        """Return what is in a directory."""
        ...

    def open(self, path: str) -> tuple[int, bool] | None:
        """Return a handle of a file, and whether the kernel's copy of its content is still right."""
        ...

    def read(self, number: int, size: int, offset: int) -> bytes:
        """Return bytes of an open file."""
        ...

    def release(self, number: int) -> None:
        """Close a handle."""
        ...


class Operations:
    """What libfuse calls; what is not here, it answers with ENOSYS.

    Args:
        files: What is shown.
    """

    use_ns = True

    def __init__(self, files: Files) -> None:
        self._files = files

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:  # noqa: ARG002 - an open file is told by its path
        """Return what stat(2) tells."""
        return _status(self._entry(path))

    def readlink(self, path: str) -> str:
        """Return where a symbolic link leads."""
        return self._entry(path).target

    def readdir(self, path: str, fh: int) -> Iterator[tuple[str, dict[str, int], int]]:  # noqa: ARG002 - none is kept
        """Return what is in a directory."""
        with _told():
            entries = self._files.entries(_ours(path))
        yield ".", _listed(self._entry(path)), 0
        yield "..", _listed(self._entry(parent_of(path))), 0
        for entry in entries:
            yield entry.name, _listed(entry), 0

    def open(self, path: str, fi: Any) -> int:  # noqa: ANN401 - a structure of C
        """Open a file."""
        if fi.flags & WRITING:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        with _told():
            opened = self._files.open(_ours(path))
        if opened is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        fi.fh, fi.keep_cache = opened
        return 0

    def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:  # noqa: ANN401, ARG002 - a structure of C
        """Return bytes of an open file."""
        with _told():
            return self._files.read(fh.fh, size, offset)

    def release(self, path: str, fh: Any) -> int:  # noqa: ANN401, ARG002 - a structure of C
        """Close a file."""
        self._files.release(fh.fh)
        return 0

    def _entry(self, path: str) -> TreeEntry:
        with _told():
            entry = self._files.entry(_ours(path))
        if entry is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return entry


def serve(files: Files, device: int) -> None:
    """Answer the kernel until the file system is unmounted and nobody uses it.

    Args:
        files: What is shown.
        device: Descriptor of ``/dev/fuse``, with which it was mounted.
    """
    mfusepy.FUSE(
        Operations(files),
        f"/dev/fd/{device}",
        raw_fi=True,
        foreground=True,
        use_ino=True,
        attr_timeout=KERNEL_S,
        entry_timeout=KERNEL_S,
        negative_timeout=KERNEL_S,
        max_threads=THREADS,
        max_idle_threads=THREADS,
    )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except GridsteadError as error:
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from error


def _ours(path: str) -> str:
    return "" if path == "/" else path


def _listed(entry: TreeEntry) -> dict[str, int]:
    return {"st_mode": entry.mode, "st_ino": entry.inode}


def _status(entry: TreeEntry) -> dict[str, int]:
    device = 0 if entry.is_file or entry.is_directory or entry.is_link else entry.size
    size = 0 if device else entry.size
    return {
        "st_mode": entry.mode,
        "st_ino": entry.inode,
        "st_nlink": entry.links,
        "st_uid": entry.uid,
        "st_gid": entry.gid,
        "st_rdev": device,
        "st_size": size,
        "st_blksize": PREFERRED_BYTES,
        "st_blocks": -(-size // BLOCK_BYTES),
        "st_atime": entry.mtime * NS,
        "st_mtime": entry.mtime * NS,
        "st_ctime": entry.mtime * NS,
    }
