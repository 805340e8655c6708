# SPDX-License-Identifier: Apache-2.0
"""The chain of a service: node, contracts, and what stands on them."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead import config
from gridstead.adapters.chain.contracts import Contracts, find_contracts
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet, load_wallet
from gridstead.errors import ChainUnavailable, ConfigError, GridsteadError


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChain:
    """What reads the chain."""

    node: Node
    contracts: Contracts
    ledger: ChainLedger
    first_block: int


def open_chain(settings: config.Chain) -> OpenChain:
    """Return the chain that the settings name.

    Raises:
        ConfigError: The endpoint serves another chain.
        ChainUnavailable: It does not answer, or is shorter than the settings say.
    """
    node = Node(settings.rpc_url)
    try:
        return _open(node, settings)
    except GridsteadError:
        node.close()
        raise


def _open(node: Node, settings: config.Chain) -> OpenChain:
    chain_id = int(node.ask("eth_chainId"), 16)
    if chain_id != settings.chain_id:
        raise ConfigError(
            f"chain.rpc_url serves chain {chain_id}",
            detail=f"chain.chain_id is {settings.chain_id}",
            hint="Set chain.rpc_url to an endpoint of the chain that holds the contracts.",
        )
    contracts = find_contracts(node, settings.contract)
    ledger = ChainLedger(node, contracts)
    if settings.first_block > ledger.head().number:
        detail = f"its newest block is {ledger.head().number}, chain.first_block is {settings.first_block}"
        raise ChainUnavailable("could not read the chain", detail=detail)
    return OpenChain(
        node=node, contracts=contracts, ledger=ledger, first_block=settings.first_block
    )


def open_wallet(settings: config.Wallet) -> Wallet:
    """Return the wallet that the settings name."""
    return load_wallet(settings.keystore_file, settings.password_file)
