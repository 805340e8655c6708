# SPDX-License-Identifier: Apache-2.0
"""Which Linux users must exist: one for each wallet that ever asked for a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gridstead.domain.events import ChainEvent, ChainEventKind
from gridstead.domain.ids import is_address
from gridstead.domain.submission import GridUser


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletRange:
    """The Linux ids that belong to wallets; both ends are inside."""

    first_uid: int = 200_001
    last_uid: int = 999_999
    gid: int = 100_000

    def holds(self, user: GridUser) -> bool:
        """Return whether an account is a wallet's: a well-formed address, a uid of the range, the
        grid's group.
        """
        return (
            is_address(user.address)
            and self.first_uid <= user.uid <= self.last_uid
            and user.gid == self.gid
        )


def customers(events: Iterable[ChainEvent]) -> frozenset[str]:
    """Return the wallets that asked for a job."""
    return frozenset(
        e.customer
        for e in events
        if e.kind is ChainEventKind.JOB_REQUESTED and is_address(e.customer)
    )


def missing(wanted: Iterable[str], existing: Iterable[GridUser]) -> tuple[str, ...]:
    """Return the wanted addresses without an account, sorted."""
    return tuple(sorted(set(wanted) - {user.address for user in existing}))
