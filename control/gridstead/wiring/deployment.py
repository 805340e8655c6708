# SPDX-License-Identifier: Apache-2.0
"""What stands behind `gridstead contracts deploy` and `gridstead devnet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.deploy import Deployment
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import load_wallet
from gridstead.errors import ConfigError

WalletFiles = tuple[Path, Path]


def deploy(
    rpc_url: str, admin: WalletFiles, path: Path, *, operator: str, supply: int, tell: Callable[[str], None]
) -> dict[str, str]:
    """Deploy and wire what is missing and return the addresses by contract name.

    Args:
        rpc_url: The chain.
        admin: Key file and password file of the wallet that will own the contracts.
        path: Where each step is written.
        operator: Wallet of the meta-scheduler service.
        supply: Credits that the administrator gets, wei.
        tell: Called with one line per step.
    """
    return Deployment(Node(rpc_url), load_wallet(*admin), path, tell=tell).run(operator=operator, supply=supply)


def check_chain(rpc_url: str, chain_id: int) -> Node:
    """Return the node, if it serves this chain.

    Raises:
        ConfigError: It serves another one.
    """
    node = Node(rpc_url)
    found = int(node.ask("eth_chainId"), 16)
    if found != chain_id:
        raise ConfigError(f"{rpc_url} serves chain {found}", detail=f"chain {chain_id} was asked for")
    return node


def give_coins_from_nowhere(node: Node, address: str, least: int, amount: int) -> bool:
    """Let a development chain set a wallet's coins if it has less than the least; return whether it had. Unit: wei."""
    if int(node.ask("eth_getBalance", address, "latest"), 16) >= least:
        return False
    node.ask("anvil_setBalance", address, hex(amount))
    return True


def fund(node: Node, admin: WalletFiles, addresses: Iterable[str], *, least: int, amount: int) -> tuple[str, ...]:
    """Send the administrator's coins to wallets that have less than the least, and return those. Unit: wei."""
    sender = DirectSender(node, load_wallet(*admin))
    poor = [a for a in addresses if int(node.ask("eth_getBalance", a, "latest"), 16) < least]
    for address in poor:
        sender.transfer(address, amount)
    return tuple(poor)


def mint(node: Node, admin: WalletFiles, contract: str, address: str, amount: int) -> None:
    """Make new credits for a wallet. Unit: wei."""
    Customer(node, find_contracts(node, contract), load_wallet(*admin)).mint(address, amount)
