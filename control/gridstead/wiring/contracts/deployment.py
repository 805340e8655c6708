# SPDX-License-Identifier: Apache-2.0
"""Runs `gridstead contracts deploy` and `gridstead devnet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import lazy_wallet, load_wallet
from gridstead.adapters.contracts.deploy import Deployment, DeploymentResult
from gridstead.adapters.contracts.multicall import MULTICALL_ADDRESS, place_multicall
from gridstead.adapters.contracts.steps import TransactionStep
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.contracts.setup import DeploymentOptions
from gridstead.errors import ConfigError

WalletFiles = tuple[Path, Path]


def deploy(
    node: Node,
    admin: WalletFiles,
    path: Path,
    options: DeploymentOptions,
    *,
    report: Callable[[str], None],
    renew: bool = False,
) -> DeploymentResult:
    """Create the missing contracts of a grid and set them up.

    Args:
        node: The node of the chain.
        admin: Keystore file and password file of the wallet that will own the contracts.
        path: The deployment file.
        options: The options of the deployment.
        report: Called with a line when a transaction is sent and when it is mined.
        renew: Whether to deploy again if the deployment file records another chain, admin or set.
            Set for a development chain, which is a new chain after each start.
    """
    return Deployment(node, lazy_wallet(*admin), path, options, report=report, renew=renew).run()


def plan_deployment(
    node: Node,
    admin: WalletFiles,
    path: Path,
    options: DeploymentOptions,
    *,
    report: Callable[[str], None],
) -> tuple[TransactionStep, ...]:
    """Return the transactions that ``deploy`` would send. Write nothing, and open no wallet."""
    return Deployment(node, lazy_wallet(*admin), path, options, report=report).plan_steps()


def check_chain(rpc_url: str, chain_id: int | None) -> Node:
    """Return the node at a URL.

    Args:
        rpc_url: The URL of the node.
        chain_id: The id of the expected chain. None accepts any chain.

    Raises:
        ConfigError: If the node serves another chain.
    """
    node = Node(rpc_url)
    served_chain_id = int(node.ask("eth_chainId"), 16)
    if chain_id not in {None, served_chain_id}:
        hint = "Specify the endpoint of the chain with the contracts."
        raise ConfigError(
            f"{rpc_url} serves chain {served_chain_id}",
            detail=f"the chain must be {chain_id}",
            hint=hint,
        )
    return node


def mint_devnet_coins(node: Node, address: str, minimum: int, amount: int) -> bool:
    """Set the balance of a wallet on a development chain if the balance is below the minimum.

    Units: wei.

    Returns:
        Whether the balance was set.
    """
    if _balance(node, address) >= minimum:
        return False
    node.ask("anvil_setBalance", address, hex(amount))
    return True


def place_devnet_multicall(node: Node) -> str | None:
    """Write the code of Multicall to a development chain if it is not there.

    Returns:
        The address to which the code was written. None if it was there already.
    """
    return MULTICALL_ADDRESS if place_multicall(node) else None


def fund(
    node: Node, admin: WalletFiles, addresses: Iterable[str], *, minimum: int, amount: int
) -> tuple[str, ...]:
    """Send coins from the administrator's wallet to the wallets with less than the minimum.

    Units: wei.

    Returns:
        The addresses of the wallets that received coins.
    """
    sender = DirectSender(node, load_wallet(*admin))
    underfunded_addresses = [address for address in addresses if _balance(node, address) < minimum]
    for address in underfunded_addresses:
        sender.transfer(address, amount)
    return tuple(underfunded_addresses)


def _balance(node: Node, address: str) -> int:
    return int(node.ask("eth_getBalance", address, "latest"), 16)


def mint(node: Node, admin: WalletFiles, contract: str, address: str, amount: int) -> None:
    """Mint credits for a wallet. Unit: wei."""
    Customer(node, find_contracts(node, contract), load_wallet(*admin)).mint(address, amount)
