# SPDX-License-Identifier: Apache-2.0
"""Creates the directories of users on the mounted shared storage. Must run as root.

A directory is created, and then its owner is changed through a file descriptor. Symbolic links are
never followed. After a crash between the two steps, the directory belongs to root, and the next
call changes its owner.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gridstead.adapters.users.storage import UserStorage
from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import ConfigError

MODE = 0o700
QUOTA_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota for directories, and the program of the file system that sets it.

    Attributes:
        command: The program and its arguments. ``{directory}`` and ``{bytes}`` are replaced.
        size_bytes: The maximum size of a directory.
    """

    command: tuple[str, ...]
    size_bytes: int

    def set_on(self, directory: Path) -> None:
        """Set or change the quota of a directory. Idempotent.

        Raises:
            ConfigError: If the program does not exist, fails, or does not end in time.
        """
        argv = [word.format(directory=directory, bytes=self.size_bytes) for word in self.command]
        message = f"could not set the quota of {directory}"
        hint = "Fix storage.quota_command, or remove storage.quota_gib."
        try:
            result = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=QUOTA_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(message, detail=str(error), hint=hint) from error
        if result.returncode != 0:
            output = (result.stderr or result.stdout).strip()
            raise ConfigError(message, detail=output, hint=hint)


class SharedStorage:
    """Implements port ``UserDirectories`` on a mounted file system.

    Args:
        storage: The parent directories, which must exist.
        quota: The quota of each directory. None for no quota.
        is_mounted: Returns whether a directory is a mount point.
    """

    def __init__(
        self,
        storage: UserStorage,
        *,
        quota: Quota | None = None,
        is_mounted: Callable[[Path], bool] = os.path.ismount,
    ) -> None:
        self._storage = storage
        self._quota = quota
        self._is_mounted = is_mounted

    def ensure(self, user: GridUser) -> bool:
        """Create the home and caches of a user. Return whether a directory was created or changed.

        If there is a quota, every call sets it.

        Raises:
            ConfigError: If a parent directory does not exist or is not mounted, if one of the paths
                exists but is not a directory of the user, or if the quota program fails.
        """
        for parent in self._storage.parents:
            if not self._is_mounted(parent):
                raise ConfigError(
                    f"{parent} is not a mount point", hint="Mount the shared storage."
                )
        directories = self._storage.directories_of(user)
        is_changed = False
        for directory in directories:
            if _ensure_directory(directory, user):
                is_changed = True
        if self._quota is not None:
            for directory in directories:
                self._quota.set_on(directory)
        return is_changed


def _ensure_directory(path: Path, user: GridUser) -> bool:
    """Create a directory that belongs to a user. Return whether it was created or changed."""
    try:
        parent_fd = os.open(path.parent, os.O_DIRECTORY | os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"cannot open {path.parent}", detail=str(error), hint="Mount the shared storage."
        ) from error
    try:
        try:
            os.mkdir(path.name, MODE, dir_fd=parent_fd)
            is_new = True
        except FileExistsError:
            is_new = False
        # The only capability of the service is CAP_CHOWN, so it cannot read a directory of a user.
        # O_PATH opens the directory without the permission to read it.
        path_fd = os.open(path.name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_PATH, dir_fd=parent_fd)
        try:
            has_new_owner = _change_owner(path_fd, user, path=path)
            return is_new or has_new_owner
        finally:
            os.close(path_fd)
    except OSError as error:
        raise ConfigError(f"cannot create {path}", detail=str(error)) from error
    finally:
        os.close(parent_fd)


def _change_owner(path_fd: int, user: GridUser, *, path: Path) -> bool:
    """Change the owner of a directory from root to a user. Return whether the owner was changed."""
    status = os.fstat(path_fd)
    if status.st_uid == user.uid:
        return False
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"cannot change the owner of {path} to uid {user.uid}",
            detail=f"it belongs to uid {status.st_uid}",
        )
    # fchmod() and fchown() do not accept a descriptor that was opened with O_PATH, so the directory
    # is opened again.
    readable_fd = os.open(".", os.O_DIRECTORY | os.O_RDONLY, dir_fd=path_fd)
    try:
        if stat.S_IMODE(status.st_mode) != MODE:
            os.fchmod(readable_fd, MODE)
        os.fchown(readable_fd, user.uid, user.gid)
    finally:
        os.close(readable_fd)
    return True
