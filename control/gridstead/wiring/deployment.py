# SPDX-License-Identifier: Apache-2.0
"""What stands behind `gridstead contracts deploy` and `gridstead devnet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.deploy import Deployment
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.steps import TransactionStep
from gridstead.adapters.chain.wallet import lazy_wallet, load_wallet
from gridstead.errors import ConfigError

WalletFiles = tuple[Path, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRequest:
    """What is to be deployed.

    Attributes:
        admin: Key file and password file of the wallet that will own the contracts.
        path: The deployment file, where each step is written.
        operator: Wallet of the meta-scheduler service.
        supply: Credits that the administrator gets, wei.
    """

    admin: WalletFiles
    path: Path
    operator: str
    supply: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedContracts:
    """What a deployment sent, and the contracts' addresses by name."""

    steps: tuple[TransactionStep, ...]
    contracts: dict[str, str]


def deploy(
    node: Node, order: DeploymentRequest, *, tell: Callable[[str], None], renew: bool = False
) -> DeployedContracts:
    """Deploy and wire what is missing and return what was sent.

    Args:
        node: The chain.
        order: What is wanted.
        tell: Called with a line per transaction and one per step.
        renew: Deploy anew where the file is of another chain or admin, as on a development chain.
    """
    deployment = Deployment(node, lazy_wallet(*order.admin), order.path, tell=tell, renew=renew)
    steps = deployment.plan(operator=order.operator, supply=order.supply)
    return DeployedContracts(
        steps=steps, contracts=deployment.run(operator=order.operator, supply=order.supply)
    )


def plan_deployment(node: Node, order: DeploymentRequest) -> tuple[TransactionStep, ...]:
    """Return what ``deploy`` would send; nothing is sent or written, and the wallet stays closed."""
    deployment = Deployment(node, lazy_wallet(*order.admin), order.path, tell=lambda _: None)
    return deployment.estimated(deployment.plan(operator=order.operator, supply=order.supply))


def check_chain(rpc_url: str, chain_id: int | None) -> Node:
    """Return the node, if it serves this chain; None: any.

    Raises:
        ConfigError: It serves another one.
    """
    node = Node(rpc_url)
    found = int(node.ask("eth_chainId"), 16)
    if chain_id not in {None, found}:
        hint = "Give the endpoint of the chain that holds the contracts."
        raise ConfigError(
            f"{rpc_url} serves chain {found}", detail=f"chain {chain_id} was asked for", hint=hint
        )
    return node


def mint_devnet_coins(node: Node, address: str, least: int, amount: int) -> bool:
    """Let a development chain set a wallet's coins if it has less than the least; return whether it
    had. Unit: wei.
    """
    if int(node.ask("eth_getBalance", address, "latest"), 16) >= least:
        return False
    node.ask("anvil_setBalance", address, hex(amount))
    return True


def fund(
    node: Node, admin: WalletFiles, addresses: Iterable[str], *, least: int, amount: int
) -> tuple[str, ...]:
    """Send the administrator's coins to wallets that have less than the least, and return those.
    Unit: wei.
    """
    sender = DirectSender(node, load_wallet(*admin))
    poor = [a for a in addresses if int(node.ask("eth_getBalance", a, "latest"), 16) < least]
    for address in poor:
        sender.transfer(address, amount)
    return tuple(poor)


def mint(node: Node, admin: WalletFiles, contract: str, address: str, amount: int) -> None:
    """Make new credits for a wallet. Unit: wei."""
    Customer(node, find_contracts(node, contract), load_wallet(*admin)).mint(address, amount)
