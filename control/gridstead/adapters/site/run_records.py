# SPDX-License-Identifier: Apache-2.0
"""Stores run records in a folder that only its owner can read, one file per record."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gridstead.domain.site.run_record import RunRecord
from gridstead.errors import UnexpectedOutput

SUFFIX = ".json"
_TYPE_ADAPTER = TypeAdapter(RunRecord)


class RunRecordFiles:
    """Implements port ``RunRecords``.

    Args:
        folder: The folder of the records. The first ``add`` creates the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, record: RunRecord) -> None:
        """Store a record."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(self._open_new_file(record.id), "wb") as stream:
            stream.write(_TYPE_ADAPTER.dump_json(record, indent=2) + b"\n")

    def _open_new_file(self, name: str) -> int:
        """Create a file and return its descriptor. Append a number to a name that exists."""
        for attempt in count(1):
            suffix = f"-{attempt}{SUFFIX}" if attempt > 1 else SUFFIX
            with suppress(FileExistsError):
                path = self._folder / f"{name}{suffix}"
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        raise AssertionError("count() never ends")

    def all(self) -> tuple[RunRecord, ...]:
        """Return all records, newest first."""
        # The files are sorted by their names without .json, so that name-2 sorts after name.
        files = self._folder.glob("*" + SUFFIX)
        paths = sorted(files, key=lambda path: path.stem, reverse=True)
        return tuple(map(_read, paths))


def _read(path: Path) -> RunRecord:
    text = path.read_text(encoding="utf-8")
    try:
        return _TYPE_ADAPTER.validate_json(text)
    except ValidationError as error:
        raise UnexpectedOutput(str(path), text) from error
