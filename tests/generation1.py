# SPDX-License-Identifier: Apache-2.0
"""A chain with test doubles of the contracts of DeepSquare 1.2.

Gridstead's contracts are derived from the contracts of DeepSquare 1.2. In names of the tests,
"plain" and "generation 1" mean the contracts of DeepSquare 1.2.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from tests.devnet import ROOT, SUPPLY, Devnet

from gridstead.adapters.chain.contract import Contract
from gridstead.adapters.transactions.direct import DirectSender

CONTRACTS = ROOT / "contracts"
META_SCHEDULER_ROLE = keccak(text="METASCHEDULER_ROLE")
META_SCHEDULER_CONTRACT_ROLE = keccak(text="METASCHEDULER_CONTRACT_ROLE")
SOURCES = "test/generation1"
FILES = {
    "Credit": "Money1.sol",
    "Constants": "Money1.sol",
    "ProviderManager": "ProviderManager1.sol",
    "JobRepository": "Records1.sol",
    "ProviderJobQueues": "Records1.sol",
    "MetaScheduler": "MetaScheduler1.sol",
}


@cache
def build_artifacts() -> dict[str, dict]:
    """Compile the doubles. Return forge's output for each double, by the original's name."""
    installed_forges = sorted(CONTRACTS.glob("node_modules/@foundry-rs/forge-*/bin/forge"))
    forge = str(installed_forges[0]) if installed_forges else shutil.which("forge")
    assert forge is not None, "forge is not installed: run make setup"
    subprocess.run([forge, "build", "--quiet", SOURCES], cwd=CONTRACTS, check=True)
    out = CONTRACTS / os.environ.get("FOUNDRY_OUT", "out")
    artifacts = {}
    for name, file in FILES.items():
        artifacts[name] = json.loads((out / file / f"{name}1.json").read_text())
    return artifacts


class PlainDevnet(Devnet):
    """A chain with the doubles of DeepSquare 1.2. The wallets are those of Devnet."""

    def _deploy(self, directory: Path) -> dict[str, str]:
        doubles = _PlainContracts(DirectSender(self.node, self.admin))
        credit = doubles.create("Credit", ("uint256",), SUPPLY)
        constants = doubles.create("Constants")
        providers = doubles.create("ProviderManager")
        jobs = doubles.create("JobRepository")
        queues = doubles.create("ProviderJobQueues", ("address",), jobs)
        contracts = (credit, constants, providers, queues, jobs)
        meta_scheduler = doubles.create("MetaScheduler", ("address",) * 5, *contracts)
        operator = self.operator.address
        doubles.call("JobRepository", "grantRole", META_SCHEDULER_ROLE, meta_scheduler)
        doubles.call("ProviderManager", "grantRole", META_SCHEDULER_CONTRACT_ROLE, meta_scheduler)
        doubles.call("ProviderJobQueues", "transferOwnership", meta_scheduler)
        doubles.call("MetaScheduler", "grantRole", META_SCHEDULER_ROLE, operator)
        doubles.call("ProviderManager", "grantRole", META_SCHEDULER_ROLE, operator)
        return {name: contract.address for name, contract in doubles.contracts.items()}


class _PlainContracts:
    """Creates the doubles and calls them with the wallet of the administrator."""

    def __init__(self, admin: DirectSender) -> None:
        self._admin = admin
        self.contracts: dict[str, Contract] = {}

    def create(self, name: str, types: tuple[str, ...] = (), *arguments) -> str:
        """Create a contract and return its address."""
        data = build_artifacts()[name]["bytecode"]["object"] + encode(types, arguments).hex()
        receipt = self._admin.transact("", data, name=f"creation of {name}")
        address = receipt["contractAddress"].lower()
        self.contracts[name] = Contract(name, address)
        return address

    def call(self, name: str, function: str, *arguments) -> None:
        """Call a function of a contract."""
        contract = self.contracts[name]
        self._admin.transact(contract.address, contract.data(function, *arguments), name=function)
