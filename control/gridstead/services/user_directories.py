# SPDX-License-Identifier: Apache-2.0
"""User directories: each wallet user of the directory gets a home and caches on the shared storage."""

from __future__ import annotations

import structlog

from gridstead.domain.accounts import WalletRange
from gridstead.domain.submission import GridUser
from gridstead.errors import GridsteadError
from gridstead.ports import Clock, Directory, UserDirectories

log = structlog.get_logger()

RETRY_S = 10


class UserDirectoryMaker:
    """Makes directories for validated users only: what LDAP says is checked before root acts on it.

    One user's failure keeps no other out: it is logged once and tried again ten seconds later.
    """

    def __init__(
        self, directory: Directory, storage: UserDirectories, wallets: WalletRange, *, clock: Clock
    ) -> None:
        self._directory = directory
        self._storage = storage
        self._wallets = wallets
        self._clock = clock
        self._done: set[GridUser] = set()
        self._suspicious: set[GridUser] = set()
        self._failed: dict[GridUser, tuple[int, str]] = {}

    def tick(self) -> None:
        """Make what is missing for users that were not looked after since the start."""
        for user in self._directory.users():
            if user in self._done or user in self._suspicious:
                continue
            if not self._wallets.holds(user):
                self._suspicious.add(user)
                log.error(
                    "user_rejected", user=user.address, reason=f"uid {user.uid}, gid {user.gid}"
                )
                continue
            self._look_after(user)

    def _look_after(self, user: GridUser) -> None:
        now = self._clock.now()
        failed_at, told = self._failed.get(user, (0, ""))
        if now - failed_at < RETRY_S:
            return
        try:
            made = self._storage.ensure(user)
        except GridsteadError as error:
            self._failed[user] = (now, str(error))
            if told != str(error):
                log.error(
                    "directories_failed",
                    user=user.address,
                    code=error.code,
                    reason=str(error),
                    hint=error.hint,
                )
            return
        if made or told:
            log.info("directories_created", user=user.address)
        self._failed.pop(user, None)
        self._done.add(user)
