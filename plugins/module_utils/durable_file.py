# SPDX-License-Identifier: Apache-2.0
"""Atomic and durable writes of files, for modules."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(
    path: Path, content: bytes, *, mode: int = 0o600, owner: int = -1, group: int = -1
) -> None:
    """Replace a file's content, mode and, if given, owner and group. Creates parent folders.

    A reader sees either the whole old file or the whole new file, also after a power failure, and
    only users with access to the file can ever read its content. The content is first written to
    ``.NAME.new`` in the same folder. Programs that read the files of a folder by
    suffix ignore that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchown(descriptor, owner, group)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    new.replace(path)
