# SPDX-License-Identifier: Apache-2.0
"""The job completion spool: slurmctld's plugin appends lines to a file, we take it away and read it
at leisure.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_REJECTED_MAX_BYTES = 16 * 1024 * 1024


class FileSpool:
    """Implements port ``CompletionSpool``.

    The plugin opens the file anew for each line, so it may be renamed at any time; it is read one
    ``take`` later, when a line that was being written then is whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = path.with_suffix(".reading")
        self._rejected = path.with_suffix(".rejected")

    def take(self) -> tuple[str, ...]:
        """Return the lines of the file that was taken away last; take the next one away if there is
        none.
        """
        if self._reading.exists():
            return tuple(
                filter(
                    None, self._reading.read_text(encoding="utf-8", errors="replace").split("\n")
                )
            )
        if self._path.exists() and self._path.stat().st_size > 0:
            self._path.rename(self._reading)
        return ()

    def done(self, *, rejected: Iterable[str]) -> None:
        """Forget the file; what was rejected is kept beside it, up to 16 MiB."""
        lines = [f"{line}\n" for line in rejected]
        if lines and not (
            self._rejected.exists() and self._rejected.stat().st_size > _REJECTED_MAX_BYTES
        ):
            with self._rejected.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self._reading.unlink(missing_ok=True)
