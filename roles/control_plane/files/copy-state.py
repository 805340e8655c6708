#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copy directories of running services: ``copy-state.py TARGET FOLDER...``.

The copy of /a/b is TARGET/a/b. The copy of a SQLite database is a consistent snapshot that includes
the changes in the write-ahead log, even if a service writes during the copy. Other files are copied
unchanged. Symbolic links, files that are deleted during the copy, and directories that do not exist
are skipped.
"""

import contextlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path

MAGIC = b"SQLite format 3\0"
LOG_SUFFIXES = ("-wal", "-shm", "-journal")


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent snapshot of a database to the target, with the source's owner and mode."""
    with (
        contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
    shutil.copystat(source, target)
    os.chown(target, source.stat().st_uid, source.stat().st_gid)


def is_database_log(path: Path) -> bool:
    """Return whether a file is the log or the shared-memory file of a SQLite database."""
    for suffix in LOG_SUFFIXES:
        if path.name.endswith(suffix):
            database = path.with_name(path.name.removesuffix(suffix))
            return database.is_file() and is_database(database)
    return False


def copy_file(path: Path, target: Path) -> None:
    """Copy a regular file with its owner and mode. Skip symbolic links and logs of databases."""
    if path.is_symlink() or not path.is_file() or is_database_log(path):
        return
    if is_database(path):
        copy_database(path, target)
        return
    shutil.copy2(path, target)
    os.chown(target, path.stat().st_uid, path.stat().st_gid)


def copy_folder(folder: Path, target: Path) -> None:
    """Copy a folder with its subdirectories and regular files, and their owners and modes."""
    shutil.copystat(folder, target)
    os.chown(target, folder.stat().st_uid, folder.stat().st_gid)
    for path in sorted(folder.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                (target / path.name).mkdir()
                copy_folder(path, target / path.name)
            else:
                copy_file(path, target / path.name)


def main() -> int:
    """Copy the directories that the command line names."""
    root = Path(sys.argv[1])
    for folder in map(Path, sys.argv[2:]):
        if folder.is_dir():
            # A state directory may be a link to /var/lib/private. Keep the path of the link.
            target = root / folder.relative_to("/")
            target.mkdir(parents=True)
            copy_folder(folder, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
