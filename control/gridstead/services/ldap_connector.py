# SPDX-License-Identifier: Apache-2.0
"""The LDAP connector: a wallet that asks for a job becomes a user of the directory."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gridstead.domain.accounts import customers, missing
from gridstead.domain.events import ChainEvent
from gridstead.errors import ChainUnavailable
from gridstead.ports import Directory, Ledger
from gridstead.services.follower import Follower

log = structlog.get_logger()

BLOCKS_PER_READ = 1000


class LdapConnector:
    """Makes directory users.

    Events say which user is needed next; the first tick compares the whole history with the
    directory, so neither a lost event nor a lost user outlives a restart.

    Args:
        ledger: The chain.
        follower: Its new events.
        directory: LDAP.
        start: First block of that history.
    """

    def __init__(
        self, ledger: Ledger, follower: Follower, directory: Directory, *, start: int = 0
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._directory = directory
        self._start = start
        self._reconciled = False

    def tick(self) -> None:
        """Make the users that the chain asks for and the directory lacks."""
        if not self._reconciled:
            self._reconcile()
            self._reconciled = True
        self._follower.tick(self._make)

    def _reconcile(self) -> None:
        wanted: set[str] = set()
        head = self._ledger.head()
        for first in range(self._start, head.number + 1, BLOCKS_PER_READ):
            last = first + BLOCKS_PER_READ - 1
            end = self._ledger.block(last) if last < head.number else head
            if end is None:
                raise ChainUnavailable(
                    f"could not read block {last}", detail="the chain is shorter now"
                )
            wanted |= customers(self._ledger.events(first=first, end=end))
        self._ensure(missing(wanted, self._directory.users()))
        log.info("directory_reconciled", block=head.number, users=len(wanted))

    def _make(self, events: Iterable[ChainEvent]) -> None:
        self._ensure(sorted(customers(events)))

    def _ensure(self, addresses: Iterable[str]) -> None:
        for address in self._directory.ensure_users(addresses):
            log.info("user_created", user=address)
