# SPDX-License-Identifier: Apache-2.0
"""A replica's files that are not objects: letters and status files in its folder, and beside it
what is not served.
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

from gridstead.adapters.cvmfs.disk import PART, replace, writing
from gridstead.domain.cvmfs.objects import ObjectName, parse_path
from gridstead.domain.cvmfs.replica import ReplicaState, Revision
from gridstead.domain.cvmfs.signed_files import MANIFEST, WHITELIST
from gridstead.domain.cvmfs.trust import SignedFiles
from gridstead.errors import ConfigError, ReplicaBusy

STATE = ".state"
STATUS = ".cvmfs_status.json"
LAST_SNAPSHOT = ".cvmfs_last_snapshot"
IS_SNAPSHOTTING = ".cvmfs_is_snapshotting"
VERSION = 1


class DiskFiles:
    """Implements port ``ReplicaFiles``.

    Args:
        storage: Folder of all replicas.
        name: Of the repository.
    """

    def __init__(self, storage: Path, name: str) -> None:
        self._name = name
        self._folder = storage / name
        self._txn = self._folder / "data" / "txn"
        self._state = storage / STATE / f"{name}.json"
        self._lock = storage / STATE / f"{name}.lock"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from this replica."""
        with writing(self._lock):
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            self._txn.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(fd)
            for part in self._txn.glob(f"*{PART}"):
                part.unlink()
            yield
        finally:
            os.close(fd)

    def _take(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            detail = "another process pulls it or removes old objects"
            raise ReplicaBusy(f"replica {self._name} is in use", detail=detail) from error

    def load(self) -> ReplicaState:
        """Return what was saved."""
        try:
            return _decode(json.loads(self._state.read_text()))
        except FileNotFoundError:
            return ReplicaState()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "Remove the file, then run `gridstead cvmfs snapshot --check`."
            raise ConfigError(f"cannot read {self._state}", detail=str(error), hint=hint) from error

    def save(self, state: ReplicaState) -> None:
        """Keep the state and tell it to clients."""
        replace(self._state, json.dumps(_encode(state), indent=1).encode(), folder=self._txn)
        status: dict[str, str] = {}
        if state.last_snapshot is not None:
            status["last_snapshot"] = _date(state.last_snapshot)
            replace(
                self._folder / LAST_SNAPSHOT,
                f"{_date(state.last_snapshot)}\n".encode(),
                folder=self._txn,
            )
        if state.last_sweep is not None:
            status["last_gc"] = _date(state.last_sweep)
        replace(self._folder / STATUS, json.dumps(status).encode(), folder=self._txn)

    def signed_file(self, name: str) -> bytes | None:
        """Return a letter that is served."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {self._folder / name}", detail=str(error)) from error

    def publish(self, signed_files: SignedFiles) -> None:
        """Serve these letters."""
        for name, signed_file in (
            (WHITELIST, signed_files.whitelist.signed_file),
            (MANIFEST, signed_files.manifest.signed_file),
        ):
            if self.signed_file(name) != signed_file.raw:
                replace(self._folder / name, signed_file.raw, folder=self._txn)

    def announce(self, since: int | None) -> None:
        """Tell clients whether a pull runs."""
        path = self._folder / IS_SNAPSHOTTING
        if since is None:
            with writing(path):
                path.unlink(missing_ok=True)
            return
        replace(path, f"{_date(since)}\n".encode(), folder=self._txn)


def _date(at: int) -> str:
    """Return a time as programs that watch Stratum 1 servers read it."""
    return datetime.fromtimestamp(at, UTC).strftime("%a %b %e %H:%M:%S UTC %Y")


def _encode(state: ReplicaState) -> dict[str, Any]:
    told = asdict(state)
    for revision, one in zip(told["revisions"], state.revisions, strict=True):
        revision["roots"] = [root.path for root in one.roots]
    return {"version": VERSION, **told}


def _decode(told: dict[str, Any]) -> ReplicaState:
    if told.pop("version") != VERSION:
        raise ValueError("it is of another version")
    revisions = tuple(
        Revision(**{**one, "roots": tuple(map(_root, one["roots"]))})
        for one in told.pop("revisions")
    )
    return ReplicaState(**told, revisions=revisions)


def _root(path: str) -> ObjectName:
    name = parse_path(path)
    if name is None:
        raise ValueError(f"{path!r} is not an object")
    return name
