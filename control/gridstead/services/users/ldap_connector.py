# SPDX-License-Identifier: Apache-2.0
"""The LDAP connector creates an LDAP user for each wallet that requests a job."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.users.accounts import addresses_without_account, customers
from gridstead.errors import ChainUnavailable
from gridstead.ports import Chain, Directory
from gridstead.services.chain.follower import Follower

log = structlog.get_logger()

BLOCKS_PER_READ = 1000


class LdapConnector:
    """Creates LDAP users.

    Each tick creates the users that new events require. The first tick also compares all past
    events with the directory. So a restart of the connector creates every user that is missing.

    Args:
        chain: The chain, with the events of the grid.
        follower: The reader of new events.
        directory: The LDAP directory.
        first_block: The first block that the first tick reads.
    """

    def __init__(
        self, chain: Chain, follower: Follower, directory: Directory, *, first_block: int = 0
    ) -> None:
        self._chain = chain
        self._follower = follower
        self._directory = directory
        self._first_block = first_block
        self._is_reconciled = False

    def tick(self) -> None:
        """Create the users that are missing in the directory."""
        if not self._is_reconciled:
            self._reconcile()
            self._is_reconciled = True
        self._follower.tick(self._create_customers)

    def _reconcile(self) -> None:
        """Compare all events with the directory and create the missing users."""
        required_addresses: set[str] = set()
        head = self._chain.head()
        for first in range(self._first_block, head.number + 1, BLOCKS_PER_READ):
            last = first + BLOCKS_PER_READ - 1
            last_block = head if last >= head.number else self._chain.block(last)
            if last_block is None:
                raise ChainUnavailable(
                    f"could not read block {last}", detail="the chain has become shorter"
                )
            required_addresses |= customers(self._chain.events(first=first, end=last_block))
        self._ensure(addresses_without_account(required_addresses, self._directory.users()))
        log.info("directory_reconciled", block=head.number, users=len(required_addresses))

    def _create_customers(self, events: Iterable[ChainEvent]) -> None:
        self._ensure(sorted(customers(events)))

    def _ensure(self, addresses: Iterable[str]) -> None:
        for address in self._directory.ensure_users(addresses):
            log.info("user_created", user=address)
