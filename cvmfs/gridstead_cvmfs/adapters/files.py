# SPDX-License-Identifier: Apache-2.0
"""The files of a replica that are not objects.

The signed files and the status files are in the repository's folder, which is served. The state
and the lock are in a folder that is not served.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridstead.errors import ConfigError
from gridstead_cvmfs.adapters.disk import TEMPORARY_SUFFIX, replace_file, write_errors_translated
from gridstead_cvmfs.domain.objects import ObjectName, parse_path
from gridstead_cvmfs.domain.replica import ReplicaState, Revision
from gridstead_cvmfs.domain.signed_files import MANIFEST, WHITELIST
from gridstead_cvmfs.domain.trust import SignedFiles
from gridstead_cvmfs.errors import ReplicaBusy

STATE = ".state"
STATUS = ".cvmfs_status.json"
LAST_SNAPSHOT = ".cvmfs_last_snapshot"
IS_SNAPSHOTTING = ".cvmfs_is_snapshotting"
STATE_VERSION = 1


class DiskFiles:
    """Implements port ``ReplicaFiles``.

    Args:
        storage: The folder of all replicas.
        name: The name of the repository.
    """

    def __init__(self, storage: Path, name: str) -> None:
        self._name = name
        self._folder = storage / name
        self._txn = self._folder / "data" / "txn"
        self._state = storage / STATE / f"{name}.json"
        self._lock = storage / STATE / f"{name}.lock"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the replica against other processes, and remove partial files."""
        with write_errors_translated(self._lock):
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            self._txn.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock_file(fd)
            for temporary_file in self._txn.glob(f"*{TEMPORARY_SUFFIX}"):
                temporary_file.unlink()
            yield
        finally:
            os.close(fd)

    def _lock_file(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            detail = "another process pulls this replica or removes its old objects"
            raise ReplicaBusy(f"replica {self._name} is in use", detail=detail) from error

    def load(self) -> ReplicaState:
        """Return the saved state, or the initial state of a new replica."""
        try:
            return _decode(json.loads(self._state.read_text()))
        except FileNotFoundError:
            return ReplicaState()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "Remove the file, then run `gridstead cvmfs snapshot --check`."
            raise ConfigError(f"cannot read {self._state}", detail=str(error), hint=hint) from error

    def save(self, state: ReplicaState) -> None:
        """Save the state and write the status files for clients."""
        replace_file(self._state, json.dumps(_encode(state), indent=1).encode(), folder=self._txn)
        status: dict[str, str] = {}
        if state.last_snapshot is not None:
            status["last_snapshot"] = _date(state.last_snapshot)
            replace_file(
                self._folder / LAST_SNAPSHOT,
                f"{_date(state.last_snapshot)}\n".encode(),
                folder=self._txn,
            )
        if state.last_sweep is not None:
            status["last_gc"] = _date(state.last_sweep)
        replace_file(self._folder / STATUS, json.dumps(status).encode(), folder=self._txn)

    def signed_file(self, name: str) -> bytes | None:
        """Return a stored signed file. None if it does not exist."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {self._folder / name}", detail=str(error)) from error

    def publish(self, signed_files: SignedFiles) -> None:
        """Store the signed files, the manifest last."""
        for name, signed_file in (
            (WHITELIST, signed_files.whitelist.signed_file),
            (MANIFEST, signed_files.manifest.signed_file),
        ):
            if self.signed_file(name) != signed_file.raw:
                replace_file(self._folder / name, signed_file.raw, folder=self._txn)

    def announce(self, started_at: int | None) -> None:
        """Write the file that tells clients when the running pull started.

        If ``started_at`` is None, remove the file.
        """
        path = self._folder / IS_SNAPSHOTTING
        if started_at is None:
            with write_errors_translated(path):
                path.unlink(missing_ok=True)
            return
        replace_file(path, f"{_date(started_at)}\n".encode(), folder=self._txn)


def _date(timestamp: int) -> str:
    """Return a time in the format that monitoring programs of Stratum 1 servers read."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%a %b %e %H:%M:%S UTC %Y")


def _encode(state: ReplicaState) -> dict[str, Any]:
    record = asdict(state)
    # asdict() has converted the name of each root to a dict. The file contains its path instead.
    for revision_record, revision in zip(record["revisions"], state.revisions, strict=True):
        revision_record["roots"] = [root.path for root in revision.roots]
    return {"version": STATE_VERSION, **record}


def _decode(record: dict[str, Any]) -> ReplicaState:
    if record.pop("version") != STATE_VERSION:
        raise ValueError("the version of the file is unknown")
    revisions = []
    for revision_record in record.pop("revisions"):
        roots = tuple(map(_root, revision_record.pop("roots")))
        revisions.append(Revision(**revision_record, roots=roots))
    return ReplicaState(**record, revisions=tuple(revisions))


def _root(path: str) -> ObjectName:
    name = parse_path(path)
    if name is None:
        raise ValueError(f"{path!r} is not the path of an object")
    return name
