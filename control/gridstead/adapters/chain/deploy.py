# SPDX-License-Identifier: Apache-2.0
"""Puts the contracts of a new grid on a chain.

Every step is written to a file when it is done, so a deployment that was cut short goes on where it stopped. A file of
another chain is set aside by its first block's hash: on a fresh devnet everything is deployed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.contracts import Contract
from gridstead.adapters.chain.direct import DirectSender
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet
from gridstead.errors import ConfigError

META_SCHEDULER_ROLE = keccak(text="METASCHEDULER_ROLE")
META_SCHEDULER_CONTRACT_ROLE = keccak(text="METASCHEDULER_CONTRACT_ROLE")


class Deployment:
    """A grid's contracts in the making.

    Args:
        node: The chain.
        admin: Pays, and owns the contracts afterwards.
        path: Where the steps are written: a JSON object of contract names and addresses.
        tell: Called with one line per step that is done.
    """

    def __init__(self, node: Node, admin: Wallet, path: Path, *, tell: Callable[[str], None]) -> None:
        self._node = node
        self._direct = DirectSender(node, admin)
        self._path = path
        self._tell = tell
        self._chain = {
            "chain_id": int(node.ask("eth_chainId"), 16),
            "genesis": node.ask("eth_getBlockByNumber", "0x0", False)["hash"],
            "admin": admin.address,
        }
        self._addresses = self._load()

    def run(self, *, operator: str, supply: int) -> dict[str, str]:
        """Deploy and wire what is missing and return the addresses by contract name, lower case.

        Args:
            operator: The wallet of the meta-scheduler service: may match jobs and approve providers.
            supply: Credits that the admin gets, wei.
        """
        credit = self._create("Credit", supply)
        constants = self._create("Constants")
        providers = self._create("ProviderManager")
        jobs = self._create("JobRepository")
        queues = self._create("ProviderJobQueues", jobs.address)
        addresses = (credit.address, constants.address, providers.address, queues.address, jobs.address)
        grid = self._create("MetaScheduler", *addresses)
        self._grant(jobs, META_SCHEDULER_ROLE, grid.address)
        self._grant(providers, META_SCHEDULER_CONTRACT_ROLE, grid.address)
        self._hand_over(queues, grid.address)
        self._grant(grid, META_SCHEDULER_ROLE, operator)
        self._grant(providers, META_SCHEDULER_ROLE, operator)
        return dict(self._addresses)

    def _create(self, name: str, *arguments: Any) -> Contract:  # noqa: ANN401
        known = self._addresses.get(name)
        if known is not None and len(self._node.ask("eth_getCode", known, "latest")) > len("0x"):
            return Contract(name, known)
        receipt = self._direct.transact("", artifact(name).creation(*arguments), name=f"creation of {name}")
        self._addresses[name] = receipt["contractAddress"].lower()
        self._save()
        self._tell(f"{name} is at {self._addresses[name]}")
        return Contract(name, self._addresses[name])

    def _grant(self, contract: Contract, role: bytes, account: str) -> None:
        if self._ask(contract, "hasRole", role, account):
            return
        self._transact(contract, "grantRole", role, account)
        self._tell(f"{account} has its role in {contract.name}")

    def _hand_over(self, contract: Contract, owner: str) -> None:
        if self._ask(contract, "owner").lower() == owner:
            return
        self._transact(contract, "transferOwnership", owner)
        self._tell(f"{contract.name} belongs to {owner}")

    def _ask(self, contract: Contract, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        read = contract.read(function, *arguments)
        answer = self._node.ask("eth_call", {"to": read.to, "data": read.data}, "latest")
        return contract.decode(function, bytes.fromhex(answer[2:]))

    def _transact(self, contract: Contract, function: str, *arguments: Any) -> None:  # noqa: ANN401
        self._direct.transact(contract.address, contract.data(function, *arguments), name=function)

    def _load(self) -> dict[str, str]:
        try:
            document = json.loads(self._path.read_text())
            addresses = {str(name): str(address) for name, address in document["contracts"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, AttributeError) as err:
            hint = "Move the file away to deploy anew."
            raise ConfigError(f"cannot read the deployment {self._path}", detail=str(err), hint=hint) from err
        return addresses if all(document.get(key) == value for key, value in self._chain.items()) else {}

    def _save(self) -> None:
        document = self._chain | {"contracts": self._addresses}
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            beside.write_text(json.dumps(document, indent=2) + "\n")
            beside.replace(self._path)
        except OSError as err:
            raise ConfigError(f"cannot write the deployment {self._path}", detail=str(err)) from err
