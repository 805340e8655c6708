# SPDX-License-Identifier: Apache-2.0
"""How files get onto the disk: whole or not at all, and only while there is room."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gridstead.errors import ConfigError, StorageFull

PART = ".part"
FILE_MODE = 0o644
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Tell the operator what could not be written, and whether it is for want of room.

    Raises:
        StorageFull: There is none.
        ConfigError: It is for something else.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            hint = "Make room, or give the replica a larger disk; what was fetched is kept."
            raise StorageFull(f"no room for {place}", detail=str(error), hint=hint) from error
        raise ConfigError(f"cannot write {place}", detail=str(error)) from error


def write_part(folder: Path, pieces: Iterable[bytes]) -> Path:
    """Write a new file that is only the writer's, on the disk when this returns; it is removed when
    a piece fails.
    """
    fd, name = tempfile.mkstemp(suffix=PART, dir=folder)
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


def replace(path: Path, content: bytes, *, folder: Path) -> None:
    """Give a file new content in one step, on the disk when this returns.

    Args:
        path: The file.
        content: All of it.
        folder: Where it is written first, on the same file system.
    """
    with writing(path):
        write_part(folder, (content,)).replace(path)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder onto the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
