# SPDX-License-Identifier: Apache-2.0
"""The outbox of a service's wallet, and its one sender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridstead.adapters.chain.account import ChainAccount
from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.outbox import SqlOutbox
from gridstead.domain.dispatch import Policy
from gridstead.ports import Clock
from gridstead.services.sender import Desk, Sender
from gridstead.wiring.chain import Chain

BATCH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A wallet's outbox and the one sender of that wallet."""

    outbox: SqlOutbox
    sender: Sender


def open_sending(
    chain: Chain, wallet: Wallet, database: Database, clock: Clock, *, confirmations: int, at: Callable[[str], None]
) -> Sending:
    """Return the outbox of a wallet, in this database, and its sender."""
    outbox = SqlOutbox(database, clock)
    desk = Desk(
        clock=clock,
        ledger=chain.ledger,
        account=ChainAccount(chain.node, chain.contracts, wallet),
        outbox=outbox,
        transactions=outbox,
    )
    policy = Policy(confirmations=confirmations, batch=BATCH if chain.contracts.has_batches else 1)
    return Sending(outbox=outbox, sender=Sender(desk, policy, at=at))
