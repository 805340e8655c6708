# SPDX-License-Identifier: Apache-2.0
"""Writes files completely or not at all, and reports a full disk."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gridstead.errors import ConfigError
from gridstead_cvmfs.errors import StorageFull

TEMPORARY_SUFFIX = ".part"
FILE_MODE = 0o644
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def write_errors_translated(path: Path) -> Iterator[None]:
    """Translate errors of writing to a file or folder.

    Raises:
        StorageFull: If the disk or the quota is full.
        ConfigError: If writing fails for another reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            hint = "Free space, or give the replica a larger disk. Fetched objects are kept."
            raise StorageFull(f"no room for {path}", detail=str(error), hint=hint) from error
        raise ConfigError(f"cannot write {path}", detail=str(error)) from error


def write_temporary_file(folder: Path, pieces: Iterable[bytes]) -> Path:
    """Write a new temporary file, sync it to the disk, and return its path.

    If iterating over the pieces fails, the temporary file is removed.
    """
    fd, name = tempfile.mkstemp(suffix=TEMPORARY_SUFFIX, dir=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), FILE_MODE)
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)


def replace_file(path: Path, content: bytes, *, folder: Path) -> None:
    """Replace the content of a file atomically, and sync it to the disk.

    Args:
        path: The file.
        content: The new content.
        folder: The folder of the temporary file, on the same file system as ``path``.
    """
    with write_errors_translated(path):
        write_temporary_file(folder, (content,)).replace(path)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the directory entries of a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
