# SPDX-License-Identifier: Apache-2.0
"""Files that must survive a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Write a file, or the entries of a folder, to the disk (fsync).

    A new or renamed file survives a power failure only if its folder was synced too.

    Raises:
        OSError: If the file cannot be opened or written to the disk.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
