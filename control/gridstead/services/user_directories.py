# SPDX-License-Identifier: Apache-2.0
"""User directories: each wallet user of the directory gets a home and caches on the shared storage."""

from __future__ import annotations

import structlog

from gridstead.domain.accounts import WalletRange
from gridstead.domain.submission import GridUser
from gridstead.ports import Directory, UserDirectories

log = structlog.get_logger()


class UserDirectoryMaker:
    """Makes directories for validated users only: what LDAP says is checked before root acts on it."""

    def __init__(self, directory: Directory, storage: UserDirectories, wallets: WalletRange) -> None:
        self._directory = directory
        self._storage = storage
        self._wallets = wallets
        self._done: set[GridUser] = set()
        self._suspicious: set[GridUser] = set()

    def tick(self) -> None:
        """Make what is missing for users that were not looked after since the start."""
        for user in self._directory.users():
            if user in self._done or user in self._suspicious:
                continue
            if not self._wallets.holds(user):
                self._suspicious.add(user)
                log.error("user_rejected", user=user.address, reason=f"uid {user.uid}, gid {user.gid}")
                continue
            if self._storage.ensure(user):
                log.info("directories_created", user=user.address)
            self._done.add(user)
