# SPDX-License-Identifier: Apache-2.0
"""Records of runs, a file each, in a folder that only its owner reads."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from gridstead.domain.run_record import RunRecord
from gridstead.errors import UnexpectedOutput

SUFFIX = ".json"
_FORM = TypeAdapter(RunRecord)


class RunRecordFiles:
    """Implements port ``RunRecords``.

    Args:
        folder: Where they are; made when the first comes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, record: RunRecord) -> None:
        """Keep a record."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(self._new(record.id), "wb") as stream:
            stream.write(_FORM.dump_json(record, indent=2) + b"\n")

    def _new(self, name: str) -> int:
        """Return a new file, open; where two runs began in one second, the second's has a number
        behind its name.
        """
        for attempt in count(1):
            path = self._folder / f"{name}{f'-{attempt}' if attempt > 1 else ''}{SUFFIX}"
            with suppress(FileExistsError):
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        raise AssertionError("there is always a next number")

    def all(self) -> tuple[RunRecord, ...]:
        """Return all records, the newest first."""
        return tuple(_read(path) for path in sorted(self._folder.glob("*" + SUFFIX), reverse=True))


def _read(path: Path) -> RunRecord:
    text = path.read_text(encoding="utf-8")
    try:
        return _FORM.validate_json(text)
    except ValidationError as err:
        raise UnexpectedOutput(str(path), text) from err
