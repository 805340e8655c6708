# SPDX-License-Identifier: Apache-2.0
"""The signed reports of the benchmarks, as files that a web server can serve."""

from __future__ import annotations

from pathlib import Path

from gridstead.adapters.disk import sync
from gridstead.domain.benchmarks.public_report import digest
from gridstead.errors import ConfigError

SERVED_NAME = "benchmark-report.json"
MAX_FILES = 10


class PublicReportFiles:
    """Implements the port ``PublicReports``.

    Each file is named after its SHA-256. The file that clients get has also a fixed name.

    Args:
        directory: The directory of the files. It is created if it does not exist.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def has(self, file_digest: str) -> bool:
        """Return whether there is a file with this SHA-256."""
        return self._path(file_digest).exists()

    def add(self, file: bytes) -> None:
        """Write a file, and remove the oldest files if there are more than 10.

        Raises:
            ConfigError: If the directory or the file cannot be written.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write(self._path(digest(file)), file)
            self._remove_old()
        except OSError as error:
            raise self._error(error) from error

    def serve(self, file_digest: str) -> None:
        """Write the file again under the fixed name, unless it is there already.

        Raises:
            ConfigError: If the file cannot be read or written.
        """
        try:
            file = self._path(file_digest).read_bytes()
            if file != self._served_file():
                self._write(self._directory / SERVED_NAME, file)
        except OSError as error:
            raise self._error(error) from error

    def _path(self, file_digest: str) -> Path:
        return self._directory / f"{file_digest}.json"

    def _served_file(self) -> bytes | None:
        path = self._directory / SERVED_NAME
        return path.read_bytes() if path.exists() else None

    def _write(self, path: Path, file: bytes) -> None:
        new_path = path.with_suffix(".new")
        new_path.write_bytes(file)
        sync(new_path)
        new_path.replace(path)
        sync(self._directory)

    def _remove_old(self) -> None:
        served_file = self._served_file()
        kept_names = {SERVED_NAME}
        if served_file is not None:
            kept_names.add(self._path(digest(served_file)).name)
        paths = [path for path in self._directory.glob("*.json") if path.name not in kept_names]
        for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns)[:-MAX_FILES]:
            path.unlink()

    def _error(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"cannot write the report of the benchmarks to {self._directory}",
            detail=str(error),
            hint="Make the directory of benchmark_report_directory writable for the supervisor.",
        )
