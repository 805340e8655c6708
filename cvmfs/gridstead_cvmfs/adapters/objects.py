# SPDX-License-Identifier: Apache-2.0
"""The objects of a repository on disk, in a layout that any web server can serve.

The path of an object is ``data/<2 digits>/<38 digits>`` and a suffix.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from gridstead_cvmfs.adapters.disk import (
    TEMPORARY_SUFFIX,
    sync_folder,
    write_errors_translated,
    write_temporary_file,
)
from gridstead_cvmfs.domain.objects import BLOCK_BYTES, ObjectName, parse_path, verify_pieces
from gridstead_cvmfs.domain.replica import SweepResult
from gridstead_cvmfs.errors import RepositoryUntrusted, StorageFull


class DiskObjects:
    """Implements port ``ObjectStore``.

    Args:
        root: The folder of the repository.
        min_free_bytes: An object is written only if at least this space is free on the disk.
    """

    def __init__(self, root: Path, *, min_free_bytes: int) -> None:
        self._root = root
        self.txn = root / "data" / "txn"
        self._min_free_bytes = min_free_bytes
        # The folders to sync. None means all folders, because an earlier run may have been killed.
        self._unsynced_folders: set[Path] | None = None
        self._lock = threading.Lock()

    def has(self, name: ObjectName, *, check: bool = False) -> bool:
        """Return whether an object is stored."""
        path = self._root / name.path
        if not check:
            return path.is_file()
        try:
            _verify(name, blocks(path))
        except FileNotFoundError:
            return False
        except RepositoryUntrusted:
            path.unlink()
            return False
        return True

    def put(self, name: ObjectName, pieces: Iterable[bytes]) -> int:
        """Store an object."""
        temporary_file, size = self._write_temporary(name, pieces)
        self._move(temporary_file, name)
        return size

    def stage(self, name: ObjectName, pieces: Iterable[bytes]) -> int:
        """Store a catalog temporarily."""
        temporary_file, size = self._write_temporary(name, pieces)
        temporary_file.replace(self._staged_path(name))
        return size

    def is_staged(self, name: ObjectName) -> bool:
        """Return whether a catalog is staged."""
        return self._staged_path(name).is_file()

    def store_staged(self, name: ObjectName) -> None:
        """Make a staged catalog a stored object."""
        self.sync()
        self._move(self._staged_path(name), name)

    def sync(self) -> None:
        """Write all stored objects to the disk."""
        with self._lock, write_errors_translated(self._root):
            data_folder = self._root / "data"
            folders = self._unsynced_folders
            if folders is None:
                folders = {data_folder, *data_folder.iterdir()}
            for folder in folders:
                sync_folder(folder)
            self._unsynced_folders = set()

    def content(self, name: ObjectName) -> Path:
        """Return the path of an object: the staged file if it exists, else the stored file."""
        staged_path = self._staged_path(name)
        return staged_path if staged_path.is_file() else self._root / name.path

    def sweep(self, keep: Iterable[ObjectName], *, dry_run: bool) -> SweepResult:
        """Remove all objects except ``keep``."""
        database_path = self.txn / f"marks{TEMPORARY_SUFFIX}"
        with write_errors_translated(self._root):
            self.txn.mkdir(parents=True, exist_ok=True)
            database_path.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(database_path)) as database:
                database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
                database.execute("CREATE TABLE kept (path TEXT PRIMARY KEY) WITHOUT ROWID")
                rows = ((name.path,) for name in keep)
                database.executemany("INSERT OR IGNORE INTO kept VALUES (?)", rows)
                return self._remove_others(database, dry_run=dry_run)
        except sqlite3.OperationalError as error:
            raise StorageFull(f"no room for {database_path}", detail=str(error)) from error
        finally:
            database_path.unlink(missing_ok=True)

    def _remove_others(self, kept: sqlite3.Connection, *, dry_run: bool) -> SweepResult:
        """Remove the objects whose path is not in the table ``kept``."""
        kept_count = 0
        removed_count = 0
        removed_bytes = 0
        for path in self._files():
            relative_path = str(path.relative_to(self._root))
            query = "SELECT 1 FROM kept WHERE path = ?"
            if kept.execute(query, (relative_path,)).fetchone():
                kept_count += 1
                continue
            removed_count += 1
            removed_bytes += path.stat().st_size
            if not dry_run:
                with write_errors_translated(path):
                    path.unlink()
        return SweepResult(kept=kept_count, removed=removed_count, removed_bytes=removed_bytes)

    def _files(self) -> Iterator[Path]:
        """Yield the files of all objects, including staged catalogs."""
        for folder in sorted((self._root / "data").iterdir()):
            for path in folder.iterdir():
                is_staged = folder == self.txn and path.suffix != TEMPORARY_SUFFIX
                if is_staged or parse_path(str(path.relative_to(self._root))):
                    yield path

    def _staged_path(self, name: ObjectName) -> Path:
        return self.txn / str(name)

    def _write_temporary(self, name: ObjectName, pieces: Iterable[bytes]) -> tuple[Path, int]:
        with write_errors_translated(self._root):
            self.txn.mkdir(parents=True, exist_ok=True)
            self._check_free_space()
            temporary_file = write_temporary_file(self.txn, verify_pieces(name, pieces))
            return temporary_file, temporary_file.stat().st_size

    def _check_free_space(self) -> None:
        if shutil.disk_usage(self.txn).free < self._min_free_bytes:
            detail = (
                f"less than {self._min_free_bytes // 2**20} MiB are free, the configured minimum"
            )
            raise StorageFull(
                f"no room for {self._root}",
                detail=detail,
                hint="Free space. Fetched objects are kept.",
            )

    def _move(self, temporary_file: Path, name: ObjectName) -> None:
        path = self._root / name.path
        with write_errors_translated(path):
            path.parent.mkdir(exist_ok=True)
            temporary_file.replace(path)
        with self._lock:
            if self._unsynced_folders is not None:
                self._unsynced_folders |= {path.parent, path.parent.parent}


def _verify(name: ObjectName, pieces: Iterable[bytes]) -> None:
    for _ in verify_pieces(name, pieces):
        pass


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in blocks."""
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block
