# SPDX-License-Identifier: Apache-2.0
"""Decides which Linux users must exist: one for each wallet that has requested a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.ids import is_address
from gridstead.domain.supervisor.submission import GridUser


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletIdRange:
    """The uids of wallet users, from ``first_uid`` to ``last_uid``, and the gid of their group."""

    first_uid: int = 200_001
    last_uid: int = 999_999
    gid: int = 100_000

    def contains(self, user: GridUser) -> bool:
        """Return whether an account belongs to a wallet.

        The name of the account must be an address, the uid must be in the range, and the group must
        be the group of wallet users.
        """
        return (
            is_address(user.address)
            and self.first_uid <= user.uid <= self.last_uid
            and user.gid == self.gid
        )


def customers(events: Iterable[ChainEvent]) -> frozenset[str]:
    """Return the wallets that requested a job."""
    wallets = set()
    for event in events:
        if event.kind is ChainEventKind.JOB_REQUESTED and is_address(event.customer):
            wallets.add(event.customer)
    return frozenset(wallets)


def addresses_without_account(
    addresses: Iterable[str], existing: Iterable[GridUser]
) -> tuple[str, ...]:
    """Return the addresses that have no account, sorted and without duplicates."""
    return tuple(sorted(set(addresses) - {user.address for user in existing}))
