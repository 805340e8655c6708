# SPDX-License-Identifier: Apache-2.0
"""Commands, users and directories of the controller's host.

The cluster agent, which runs on this host as SlurmUser, uses this module.
"""

from __future__ import annotations

import pwd
import stat
import subprocess
import threading
from pathlib import Path

from gridstead.adapters.slurm import commands, queries
from gridstead.adapters.slurm.runner import Command, CommandResult, Runner, read_output
from gridstead.adapters.users.storage import UserStorage
from gridstead.domain.supervisor.submission import GridUser
from gridstead.errors import SchedulerUnavailable

_TIMEOUT_S = 30.0


class LocalRunner:
    """Runs commands on this host. Implements ``Runner``."""

    def run(self, command: Command) -> CommandResult:
        """Run the command to its end and return its result. After 30 seconds, kill it."""
        try:
            result = subprocess.run(
                command.argv,
                env=dict(command.environment),
                input=command.stdin.encode(),
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as err:
            raise SchedulerUnavailable(f"could not run {command.argv[0]}", detail=str(err)) from err
        return CommandResult(
            exit_status=result.returncode,
            stdout=result.stdout.decode(errors="replace"),
            stderr=result.stderr.decode(errors="replace"),
        )


class LocalAccounts:
    """Implements port ``Accounts`` with this host's name service, file systems and sacctmgr."""

    def __init__(self, *, runner: Runner, storage: UserStorage, account: str) -> None:
        self._runner = runner
        self._storage = storage
        self._account = account
        self._associated_addresses: set[str] = set()
        self._lock = threading.Lock()

    def user(self, address: str) -> GridUser | None:
        """Return the user whose name is the address, or None if the name does not resolve."""
        try:
            entry = pwd.getpwnam(address)
        except KeyError:
            return None
        return GridUser(address=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)

    def missing_directories(self, user: GridUser) -> tuple[str, ...]:
        """Return a message for each directory that is missing or does not belong to the user."""
        messages = [_problem(path, user.uid) for path in self._storage.directories_of(user)]
        return tuple(message for message in messages if message)

    def associate(self, address: str) -> None:
        """Create the user's association in Slurm's accounting if it is missing."""
        with self._lock:
            if address not in self._associated_addresses:
                queries.associate(self._runner, address, account=self._account)
                self._associated_addresses.add(address)

    def reassociate(self, address: str) -> None:
        """Check the association again and make slurmctld read all associations again.

        Running jobs are not affected.
        """
        with self._lock:
            self._associated_addresses.discard(address)
        self.associate(address)
        read_output(self._runner, commands.reconfigure())


def _problem(path: Path, uid: int) -> str:
    """Return what is wrong with a directory. Returns an empty text if the user owns it."""
    try:
        status = path.lstat()
    except OSError as err:
        return f"directory {path} is missing ({err.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a directory"
    if status.st_uid != uid:
        return f"directory {path} belongs to uid {status.st_uid}"
    return ""
