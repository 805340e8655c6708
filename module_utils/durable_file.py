# SPDX-License-Identifier: Apache-2.0
"""Files that are whole at every moment, for modules that write them."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(
    path: Path, content: bytes, *, mode: int = 0o600, owner: int = -1, group: int = -1
) -> None:
    """The file has the content, the mode, and the owner and group if they are given; folders above
    it are made.

    Whoever reads it, also after the power failed, finds all that was in it before or all that is in
    it now, and nobody who may not read it ever could. What is written stands beside it meanwhile,
    as ``.NAME.new``: no program that reads the files of a folder by their suffix takes it for one
    of its own.
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
