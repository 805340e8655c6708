# SPDX-License-Identifier: Apache-2.0
"""Creates the home and cache directories of wallet users on the shared storage."""

from __future__ import annotations

import structlog

from gridstead.domain.supervisor.submission import GridUser
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.errors import GridsteadError
from gridstead.ports import Clock, Directory, UserDirectories

log = structlog.get_logger()

RETRY_S = 10


class UserDirectoryMaker:
    """Creates the directories of users whose uid and gid are in the wallet range.

    Other users in the LDAP directory are rejected, because this service runs as root and must not
    change the files of system users. An error for one user does not affect other users. The error
    is logged once, and the creation is retried after ten seconds.
    """

    def __init__(
        self,
        directory: Directory,
        storage: UserDirectories,
        wallet_ids: WalletIdRange,
        *,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._storage = storage
        self._wallet_ids = wallet_ids
        self._clock = clock
        self._completed: set[GridUser] = set()
        self._rejected: set[GridUser] = set()
        self._failures: dict[GridUser, tuple[int, str]] = {}

    def tick(self) -> None:
        """Create the directories of users that this process has not handled yet."""
        for user in self._directory.users():
            if user in self._completed or user in self._rejected:
                continue
            if not self._wallet_ids.contains(user):
                self._rejected.add(user)
                log.error(
                    "user_rejected", user=user.address, reason=f"uid {user.uid}, gid {user.gid}"
                )
                continue
            self._ensure(user)

    def _ensure(self, user: GridUser) -> None:
        now = self._clock.now()
        failed_at, logged_reason = self._failures.get(user, (0, ""))
        age_s = now - failed_at  # negative after the clock was set back
        if 0 <= age_s < RETRY_S:
            return
        try:
            created = self._storage.ensure(user)
        except GridsteadError as error:
            self._failures[user] = (now, str(error))
            if logged_reason != str(error):
                log.error(
                    "directories_failed",
                    user=user.address,
                    code=error.code,
                    reason=str(error),
                    hint=error.hint,
                )
            return
        if created or logged_reason:
            log.info("directories_created", user=user.address)
        self._failures.pop(user, None)
        self._completed.add(user)
