# SPDX-License-Identifier: Apache-2.0
"""The job completion spool. A plugin of slurmctld appends to this file, and the agent reads it.

The agent renames the file before it reads the lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_REJECTED_MAX_BYTES = 16 * 1024 * 1024


class FileSpool:
    """Implements port ``CompletionSpool``.

    The plugin opens the file for each line, so the agent can rename the file at any time. The agent
    reads the renamed file in the next call of ``read_lines``. By then, a line that the plugin was
    writing is complete.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading_path = path.with_suffix(".reading")
        self._rejected_path = path.with_suffix(".rejected")

    def read_lines(self) -> tuple[str, ...]:
        """Return the lines of the renamed file. If no such file exists, rename the current file."""
        if self._reading_path.exists():
            text = self._reading_path.read_text(encoding="utf-8", errors="replace")
            return tuple(line for line in text.split("\n") if line)
        if self._path.exists() and self._path.stat().st_size > 0:
            self._path.rename(self._reading_path)
        return ()

    def remove_lines(self, *, rejected: Iterable[str]) -> None:
        """Delete the renamed file, and store the rejected lines in another file of up to 16 MiB."""
        lines = [f"{line}\n" for line in rejected]
        if lines and not self._is_rejected_full():
            with self._rejected_path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self._reading_path.unlink(missing_ok=True)

    def _is_rejected_full(self) -> bool:
        return (
            self._rejected_path.exists()
            and self._rejected_path.stat().st_size > _REJECTED_MAX_BYTES
        )
