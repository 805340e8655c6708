# SPDX-License-Identifier: Apache-2.0
"""Creates the outbox of a service's wallet, and its sender."""

from __future__ import annotations

from collections.abc import Callable

from gridstead.adapters.chain.wallet import Wallet
from gridstead.adapters.clock import SystemClock
from gridstead.adapters.store.database import Database
from gridstead.adapters.store.outbox import SqlOutbox
from gridstead.adapters.transactions.account import ChainAccount
from gridstead.domain.transactions.outbox import SkippedCall
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.services.transactions.sender import Sender, SenderPorts
from gridstead.wiring.chain import ChainAccess

MAX_BATCH = 50  # calls in one transaction


def open_outbox(
    chain: ChainAccess,
    wallet: Wallet,
    database: Database,
    *,
    confirmations: int,
    failpoint: Callable[[str], None],
    on_skipped: Callable[[SkippedCall], object] = lambda _: None,
) -> tuple[SqlOutbox, Sender]:
    """Return the outbox of a wallet in a database, and the sender of its calls.

    The sender calls ``on_skipped`` with each call that the contracts skipped.
    """
    clock = SystemClock()
    outbox = SqlOutbox(database, clock)
    ports = SenderPorts(
        clock=clock,
        ledger=chain.ledger,
        account=ChainAccount(chain.node, chain.contracts, wallet),
        transactions=outbox,
    )
    max_batch_calls = MAX_BATCH if chain.contracts.has_batches else 1
    policy = DispatchPolicy(confirmations=confirmations, max_batch_calls=max_batch_calls)
    return outbox, Sender(ports, policy, failpoint=failpoint, on_skipped=on_skipped)
