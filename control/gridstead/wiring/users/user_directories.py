# SPDX-License-Identifier: Apache-2.0
"""Starts the service that creates user directories: `gridstead user-directories run`."""

from __future__ import annotations

from gridstead.adapters.clock import SystemClock
from gridstead.adapters.users.storage import UserStorage
from gridstead.adapters.users.user_directories import Quota, SharedStorage
from gridstead.config import UserDirectoriesSettings
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.services.users.user_directories import UserDirectoryMaker
from gridstead.wiring import loop
from gridstead.wiring.users.ldap_connector import open_directory

BYTES_PER_GIB = 1 << 30


def run(settings: UserDirectoriesSettings) -> None:
    """Run the service that creates user directories until it is stopped."""
    ids, paths = settings.wallet_ids, settings.storage
    storage = UserStorage(
        homes=paths.homes,
        shared_cache=paths.shared_cache,
        persistent_cache=paths.persistent_cache,
    )
    quota = None
    if paths.quota_gib is not None:
        quota = Quota(command=paths.quota_command, size_bytes=paths.quota_gib * BYTES_PER_GIB)
    service = UserDirectoryMaker(
        open_directory(settings.directory, gid=ids.gid),
        SharedStorage(storage, quota=quota),
        WalletIdRange(first_uid=ids.first_uid, last_uid=ids.last_uid, gid=ids.gid),
        clock=SystemClock(),
    )
    loop.run(
        (loop.Tick(name="user_directories", function=service.tick, interval_s=settings.tick_s),)
    )
