# SPDX-License-Identifier: Apache-2.0
"""Deploys a set of contracts from their creation code, for sets that no release deploys any more.

The steps are those that DeepSquare 1.2 and release 2.0.0 have in common.
"""

from __future__ import annotations

from collections.abc import Mapping

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from tests.devnet import SUPPLY, Devnet

from gridstead.adapters.chain.contract import Contract
from gridstead.adapters.transactions.direct import DirectSender

META_SCHEDULER_ROLE = keccak(text="METASCHEDULER_ROLE")
META_SCHEDULER_CONTRACT_ROLE = keccak(text="METASCHEDULER_CONTRACT_ROLE")
ADMIN_ROLE = bytes(32)


class OldContracts:
    """Creates the contracts of a set and calls them with the wallet of the administrator.

    Args:
        devnet: The chain and its wallets.
        codes: The creation code of each contract as 0x and hexadecimal digits, by name.
    """

    def __init__(self, devnet: Devnet, codes: Mapping[str, str]) -> None:
        self._sender = DirectSender(devnet.node, devnet.admin)
        self._admin, self._operator = devnet.admin.address, devnet.operator.address
        self._codes = codes
        self._contracts: dict[str, Contract] = {}

    def deploy(self) -> dict[str, str]:
        """Create the contracts and grant their roles. Return the addresses by name."""
        credit = self._create("Credit", ("uint256",), SUPPLY)
        constants = self._create("Constants")
        providers = self._create("ProviderManager")
        jobs = self._create("JobRepository")
        queues = self._create("ProviderJobQueues", ("address",), jobs)
        contracts = (credit, constants, providers, queues, jobs)
        meta_scheduler = self._create("MetaScheduler", ("address",) * 5, *contracts)
        self._call("JobRepository", "grantRole", META_SCHEDULER_ROLE, meta_scheduler)
        self._call("ProviderManager", "grantRole", META_SCHEDULER_CONTRACT_ROLE, meta_scheduler)
        self._call("ProviderJobQueues", "transferOwnership", meta_scheduler)
        self._call("MetaScheduler", "grantRole", META_SCHEDULER_ROLE, self._operator)
        self._call("ProviderManager", "grantRole", META_SCHEDULER_ROLE, self._operator)
        return {name: contract.address for name, contract in self._contracts.items()}

    def seal(self) -> None:
        """Let the administrator renounce JobRepository, as the last step of a deployment does."""
        self._call("JobRepository", "renounceRole", ADMIN_ROLE, self._admin)

    def _create(self, name: str, types: tuple[str, ...] = (), *arguments) -> str:
        data = self._codes[name] + encode(types, arguments).hex()
        receipt = self._sender.transact("", data, name=f"creation of {name}")
        address = receipt["contractAddress"].lower()
        self._contracts[name] = Contract(name, address)
        return address

    def _call(self, name: str, function: str, *arguments) -> None:
        contract = self._contracts[name]
        data = contract.data(function, *arguments)
        self._sender.transact(contract.address, data, name=function)
