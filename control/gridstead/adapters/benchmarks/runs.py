# SPDX-License-Identifier: Apache-2.0
"""The files about the current run: its lock, its progress, and the request for the next run.

The process that runs the benchmarks has another account than the agent. So the agent asks for a run
with a file, and systemd starts the process.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gridstead.errors import BenchmarksNotStarted, UnexpectedOutput

LOCK_FILE = "run.lock"
PROGRESS_FILE = "progress.json"
REQUEST_FILE = "request.json"
_MODE = 0o644
# A reader holds the lock for a moment, to see whether a run holds it.
_ATTEMPTS = 10
_ATTEMPT_INTERVAL_S = 0.05


class RunLockFile:
    """Implements port ``RunLock``. The kernel releases the lock at the end of the process.

    Args:
        directory: The directory with the reports.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_FILE

    @contextmanager
    def held(self, *, wait: bool) -> Iterator[None]:
        """Hold the lock.

        Raises:
            BenchmarksNotStarted: If another process holds the lock, and ``wait`` is false.
        """
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            if wait:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            elif not _lock(descriptor):
                raise BenchmarksNotStarted(
                    "could not start the benchmarks", detail="they are running"
                )
            yield
        finally:
            os.close(descriptor)

    def is_held(self) -> bool:
        """Return whether a process holds the lock."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def _lock(descriptor: int) -> bool:
    for _ in range(_ATTEMPTS):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_ATTEMPT_INTERVAL_S)
    return False


class ProgressFile:
    """Implements port ``ProgressStore``.

    Args:
        directory: The directory with the reports.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / PROGRESS_FILE

    def write(self, text: str) -> None:
        """Replace the text. Readers see the old text or the new one."""
        new_path = self._path.with_suffix(".new")
        new_path.write_text(text, encoding="utf-8")
        new_path.replace(self._path)

    def read(self) -> str | None:
        """Return the text, or None if there was no run."""
        return _read(self._path)


class RequestFile:
    """Implements port ``RunRequests``.

    Args:
        directory: The directory of the file. Both the account of the agent and the account of the
            benchmarks must be able to write to it.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / REQUEST_FILE

    def put(self, text: str) -> None:
        """Store a request.

        Raises:
            BenchmarksNotStarted: If a request waits already, or the file cannot be written.
        """
        message = "could not request a run of the benchmarks"
        # DirectoryNotEmpty of a path unit ignores hidden files.
        new_path = self._path.with_name(f".{REQUEST_FILE}.{os.getpid()}")
        try:
            new_path.write_text(text, encoding="utf-8")
            new_path.chmod(_MODE)
            os.link(new_path, self._path)  # fails if the file exists, unlike a rename
        except FileExistsError as error:
            raise BenchmarksNotStarted(
                message,
                detail=f"an earlier request waits in {self._path}",
                hint="Check that gridstead-benchmarks.path is active on the Slurm controller.",
            ) from error
        except OSError as error:
            raise BenchmarksNotStarted(message, detail=str(error)) from error
        finally:
            with suppress(OSError):  # It does not exist, or cannot be removed either.
                new_path.unlink()

    def is_waiting(self) -> bool:
        """Return whether a request waits."""
        return self._path.exists()

    def take(self) -> str | None:
        """Remove the request and return its text, or None if there is none."""
        text = _read(self._path)
        if text is not None:
            self._path.unlink(missing_ok=True)
        return text


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnexpectedOutput(str(path), str(error)) from error
