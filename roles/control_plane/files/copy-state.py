#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copy folders of running services: ``copy-state.py TARGET FOLDER...``; each FOLDER keeps its path
below TARGET.

A SQLite database is copied as one moment of it, with what its log beside it has, while its service
writes on. Other files are copied as they are. A file that goes meanwhile was not needed; folders
that are not there are left out.
"""

import contextlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path

MAGIC = b"SQLite format 3\0"
BESIDE = ("-wal", "-shm", "-journal")


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def copy_database(source: Path, target: Path) -> None:
    """The target is the database as it was at one moment."""
    with (
        contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
    shutil.copystat(source, target)
    os.chown(target, source.stat().st_uid, source.stat().st_gid)


def is_part_of_a_database(path: Path) -> bool:
    """Return whether a file is what SQLite keeps beside a database."""
    database = [Path(str(path).removesuffix(end)) for end in BESIDE if path.name.endswith(end)]
    return bool(database) and database[0].is_file() and is_database(database[0])


def copy_file(path: Path, target: Path) -> None:
    """The target is what the file was, with its rights."""
    if path.is_symlink() or not path.is_file() or is_part_of_a_database(path):
        return
    if is_database(path):
        copy_database(path, target)
        return
    shutil.copy2(path, target)
    os.chown(target, path.stat().st_uid, path.stat().st_gid)


def copy_folder(folder: Path, target: Path) -> None:
    """The target has all files and folders of the folder, with their rights."""
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
    """Copy what the command line says."""
    root = Path(sys.argv[1])
    for folder in map(Path, sys.argv[2:]):
        if folder.is_dir():
            # systemd shows a service's private folder under a name of its own.
            target = root / folder.relative_to("/")
            target.mkdir(parents=True)
            copy_folder(folder, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
