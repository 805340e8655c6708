# SPDX-License-Identifier: Apache-2.0
"""Atomic and durable replacement of files."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(
    path: Path, content: bytes, *, mode: int = 0o600, owner: int = -1, group: int = -1
) -> None:
    """Replace a file's content, mode, owner and group. Create missing parent folders.

    A reader sees either the whole old file or the whole new file, also after a power failure. When
    the function has returned, the new file is on the disk.

    The content is first written to ``.NAME.new`` in the same folder, with mode 0600. Programs that
    read all files of a folder with a certain suffix ignore this name.

    Args:
        path: The file.
        content: The new content.
        mode: The new mode.
        owner: The uid of the new owner. -1 is the user who runs the module.
        group: The gid of the new group. -1 is the group of that user.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchown(descriptor, owner, group)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Write a file, or the names in a folder, from the kernel's cache to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
