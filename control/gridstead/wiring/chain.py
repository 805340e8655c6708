# SPDX-License-Identifier: Apache-2.0
"""The chain of a service: node, contracts, and what stands on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridstead import config
from gridstead.adapters.chain.account import ChainAccount
from gridstead.adapters.chain.contracts import Contracts, find_contracts
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet, load_wallet
from gridstead.adapters.journal.database import Database
from gridstead.adapters.journal.outbox import SqlOutbox
from gridstead.domain.dispatch import Policy
from gridstead.errors import ConfigError
from gridstead.ports import Clock
from gridstead.services.sender import Desk, Sender

BATCH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What reads the chain."""

    node: Node
    contracts: Contracts
    ledger: ChainLedger


def open_chain(settings: config.Chain) -> Chain:
    """Return the chain that the settings name.

    Raises:
        ConfigError: The endpoint serves another chain.
        ChainUnavailable: It does not answer.
    """
    node = Node(settings.rpc_url)
    chain_id = int(node.ask("eth_chainId"), 16)
    if chain_id != settings.chain_id:
        raise ConfigError(
            f"{settings.rpc_url} serves chain {chain_id}",
            detail=f"chain.chain_id is {settings.chain_id}",
            hint="Set chain.rpc_url to an endpoint of the chain that holds the contracts.",
        )
    contracts = find_contracts(node, settings.contract)
    return Chain(node=node, contracts=contracts, ledger=ChainLedger(node, contracts))


def open_wallet(settings: config.Wallet) -> Wallet:
    """Return the wallet that the settings name."""
    return load_wallet(settings.keystore_file, settings.password_file)


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
