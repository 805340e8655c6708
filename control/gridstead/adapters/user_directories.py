# SPDX-License-Identifier: Apache-2.0
"""Directories on the mounted shared storage, made by root on the one host that may be root there.

A directory is made and given away through its own descriptor, so no name is followed twice and no
link is ever trusted. A crash between the two steps leaves a directory of root's, which the next
round gives away.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gridstead.domain.submission import GridUser
from gridstead.errors import ConfigError

MODE = 0o700
QUOTA_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePaths:
    """Existing parents of what is made, on the shared storage."""

    homes: Path
    shared_cache: Path
    persistent_cache: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The bound of a directory, set by a program of the file system.

    Attributes:
        command: The program and its arguments, with ``{directory}`` and ``{bytes}``.
        size_bytes: Most that a directory may hold.
    """

    command: tuple[str, ...]
    size_bytes: int

    def put_on(self, directory: Path) -> None:
        """Bound the directory. Safe to repeat, also with another size.

        Raises:
            ConfigError: The program is not there, refuses, or does not end.
        """
        argv = [word.format(directory=directory, bytes=self.size_bytes) for word in self.command]
        hint = "Mend storage.quota_command, or leave out storage.quota_gib."
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=QUOTA_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"cannot bound {directory}", detail=str(error), hint=hint) from error
        if done.returncode != 0:
            raise ConfigError(
                f"cannot bound {directory}", detail=(done.stderr or done.stdout).strip(), hint=hint
            )


class SharedStorage:
    """Implements port ``UserDirectories`` on a mounted file system.

    Args:
        paths: Parents of what is made.
        quota: What bounds each directory; None: nothing does.
        is_mounted: Tells a mounted parent from the bare directory below it.
    """

    def __init__(
        self,
        paths: StoragePaths,
        *,
        quota: Quota | None = None,
        is_mounted: Callable[[Path], bool] = os.path.ismount,
    ) -> None:
        self._paths = paths
        self._quota = quota
        self._is_mounted = is_mounted

    def ensure(self, user: GridUser) -> bool:
        """Make the user's home and caches, bound them, and return whether anything was made.

        Raises:
            ConfigError: A parent is not there or not mounted, a name is taken by something else, or
                the quota's program fails.
        """
        for parent in (self._paths.homes, self._paths.shared_cache, self._paths.persistent_cache):
            if not self._is_mounted(parent):
                raise ConfigError(f"{parent} is no mount point", hint="Mount the shared storage.")
        places = (
            (self._paths.homes, user.address),
            (self._paths.shared_cache, str(user.uid)),
            (self._paths.persistent_cache, f"user-{user.uid}"),
        )
        made = [_ensure(parent, name, user) for parent, name in places]
        if self._quota is not None:
            for parent, name in places:
                self._quota.put_on(parent / name)
        return any(made)


def _ensure(parent: Path, name: str, user: GridUser) -> bool:
    made = False
    try:
        parent_fd = os.open(parent, os.O_DIRECTORY | os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"cannot open {parent}", detail=str(error), hint="Mount the shared storage."
        ) from error
    try:
        try:
            os.mkdir(name, MODE, dir_fd=parent_fd)
            made = True
        except FileExistsError:
            made = False
        # Looked at, not opened: what is a user's already is closed to root that may only give away.
        fd = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_PATH, dir_fd=parent_fd)
        try:
            return _give(fd, user, place=parent / name) or made
        finally:
            os.close(fd)
    except OSError as error:
        raise ConfigError(f"cannot make {parent / name}", detail=str(error)) from error
    finally:
        os.close(parent_fd)


def _give(fd: int, user: GridUser, *, place: Path) -> bool:
    """Hand a directory of root's to the user; return whether that was needed."""
    status = os.fstat(fd)
    if status.st_uid == user.uid:
        return False
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"cannot give {place} to uid {user.uid}", detail=f"it belongs to uid {status.st_uid}"
        )
    own = os.open(".", os.O_DIRECTORY | os.O_RDONLY, dir_fd=fd)
    try:
        if stat.S_IMODE(status.st_mode) != MODE:
            os.fchmod(own, MODE)
        os.fchown(own, user.uid, user.gid)
    finally:
        os.close(own)
    return True
