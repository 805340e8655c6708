# SPDX-License-Identifier: Apache-2.0
"""Opens the chain of a service: the node, the contracts and the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead import config
from gridstead.adapters.chain.contracts import Contracts, find_contracts
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet, load_wallet
from gridstead.errors import ChainUnavailable, ConfigError, GridsteadError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainAccess:
    """The node, the contracts and the ledger that reads them."""

    node: Node
    contracts: Contracts
    ledger: ChainLedger
    first_block: int


def open_chain(settings: config.Chain, *, with_transfers: bool = False) -> ChainAccess:
    """Open the chain that the settings describe.

    Args:
        settings: The settings.
        with_transfers: Whether the events include the transfers of credits.

    Raises:
        ConfigError: If the endpoint serves another chain, or has no contracts of a grid at the
            configured address.
        ChainUnavailable: If the endpoint does not answer, or if the chain has no block
            ``first_block`` yet.
    """
    node = Node(settings.rpc_url)
    try:
        return _open(node, settings, with_transfers=with_transfers)
    except GridsteadError:
        node.close()
        raise


def _open(node: Node, settings: config.Chain, *, with_transfers: bool) -> ChainAccess:
    chain_id = int(node.ask("eth_chainId"), 16)
    if chain_id != settings.chain_id:
        raise ConfigError(
            f"chain.rpc_url serves chain {chain_id}",
            detail=f"chain.chain_id is {settings.chain_id}",
            hint="Set chain.rpc_url to an endpoint of the chain with the contracts.",
        )
    contracts = find_contracts(node, settings.contract)
    ledger = ChainLedger(node, contracts, with_transfers=with_transfers)
    newest_block = ledger.head().number
    first_block = settings.first_block
    if first_block > newest_block:
        detail = f"its newest block is {newest_block}, chain.first_block is {first_block}"
        raise ChainUnavailable("could not read the chain", detail=detail)
    return ChainAccess(node=node, contracts=contracts, ledger=ledger, first_block=first_block)


def open_wallet(settings: config.Wallet) -> Wallet:
    """Return the wallet of the settings."""
    return load_wallet(settings.keystore_file, settings.password_file)
