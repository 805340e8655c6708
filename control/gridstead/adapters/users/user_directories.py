# SPDX-License-Identifier: Apache-2.0
"""Creates directories on the mounted shared storage, as root of the storage host.

A directory is created and its owner is changed through the directory's own descriptor. No name is
followed twice and no symbolic link is trusted. A crash between the two steps leaves a directory
that belongs to root; the next round changes its owner.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import ConfigError

MODE = 0o700
QUOTA_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePaths:
    """Existing parent directories on the shared storage."""

    homes: Path
    shared_cache: Path
    persistent_cache: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of a directory, set by a program of the file system.

    Attributes:
        command: The program and its arguments, with ``{directory}`` and ``{bytes}``.
        size_bytes: Maximum size of a directory.
    """

    command: tuple[str, ...]
    size_bytes: int

    def set_on(self, directory: Path) -> None:
        """Set the quota of the directory. Safe to repeat, also with another size.

        Raises:
            ConfigError: If the program does not exist, fails, or does not end in time.
        """
        argv = [word.format(directory=directory, bytes=self.size_bytes) for word in self.command]
        failure = f"could not set the quota of {directory}"
        hint = "Fix storage.quota_command, or remove storage.quota_gib."
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
            raise ConfigError(failure, detail=str(error), hint=hint) from error
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip()
            raise ConfigError(failure, detail=output, hint=hint)


class SharedStorage:
    """Implements port ``UserDirectories`` on a mounted file system.

    Args:
        paths: Parent directories.
        quota: Quota of each directory; None for no quota.
        is_mounted: Returns whether a parent is a mount point.
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
        """Create the user's home and caches, set their quotas, and return whether any was created.

        Raises:
            ConfigError: If a parent does not exist or is not mounted, a name exists as something
                else, or the quota program fails.
        """
        for parent in (self._paths.homes, self._paths.shared_cache, self._paths.persistent_cache):
            if not self._is_mounted(parent):
                raise ConfigError(
                    f"{parent} is not a mount point", hint="Mount the shared storage."
                )
        places = (
            (self._paths.homes, user.address),
            (self._paths.shared_cache, str(user.uid)),
            (self._paths.persistent_cache, f"user-{user.uid}"),
        )
        created = [_ensure(parent, name, user) for parent, name in places]
        if self._quota is not None:
            for parent, name in places:
                self._quota.set_on(parent / name)
        return any(created)


def _ensure(parent: Path, name: str, user: GridUser) -> bool:
    try:
        parent_fd = os.open(parent, os.O_DIRECTORY | os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"cannot open {parent}", detail=str(error), hint="Mount the shared storage."
        ) from error
    try:
        try:
            os.mkdir(name, MODE, dir_fd=parent_fd)
            created = True
        except FileExistsError:
            created = False
        # With O_PATH the directory is not opened for reading: root may only change owners here, so
        # it cannot read a directory that already belongs to a user.
        fd = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_PATH, dir_fd=parent_fd)
        try:
            return _give_to(user, fd, path=parent / name) or created
        finally:
            os.close(fd)
    except OSError as error:
        raise ConfigError(f"cannot create {parent / name}", detail=str(error)) from error
    finally:
        os.close(parent_fd)


def _give_to(user: GridUser, fd: int, *, path: Path) -> bool:
    """Change the owner of a directory from root to the user; return whether it was changed."""
    status = os.fstat(fd)
    if status.st_uid == user.uid:
        return False
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"cannot change the owner of {path} to uid {user.uid}",
            detail=f"it belongs to uid {status.st_uid}",
        )
    directory_fd = os.open(".", os.O_DIRECTORY | os.O_RDONLY, dir_fd=fd)
    try:
        if stat.S_IMODE(status.st_mode) != MODE:
            os.fchmod(directory_fd, MODE)
        os.fchown(directory_fd, user.uid, user.gid)
    finally:
        os.close(directory_fd)
    return True
