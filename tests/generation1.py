# SPDX-License-Identifier: Apache-2.0
"""A grid of the first generation: the double of the DeepSquare contracts, line 1.2, on a real
chain.
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

from gridstead.adapters.chain.contracts import Contract
from gridstead.adapters.chain.direct import DirectSender

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
def compiled() -> dict[str, dict]:
    """Return what forge makes of the double, by the name of the contract that each part doubles."""
    found = sorted(CONTRACTS.glob("node_modules/@foundry-rs/forge-*/bin/forge"))
    forge = str(found[0]) if found else shutil.which("forge")
    assert forge is not None, "forge is not installed (make setup)"
    subprocess.run([forge, "build", "--quiet", SOURCES], cwd=CONTRACTS, check=True)
    out = CONTRACTS / os.environ.get("FOUNDRY_OUT", "out")
    return {
        name: json.loads((out / file / f"{name}1.json").read_text()) for name, file in FILES.items()
    }


class PlainDevnet(Devnet):
    """A chain with the contracts of the first generation and the same people as on one of ours."""

    def _deploy(self, directory: Path) -> dict[str, str]:
        admin = DirectSender(self.node, self.admin)
        made: dict[str, Contract] = {}

        def create(name: str, types: tuple[str, ...] = (), *arguments) -> str:
            data = compiled()[name]["bytecode"]["object"] + encode(types, arguments).hex()
            address = admin.transact("", data, name=f"creation of {name}")[
                "contractAddress"
            ].lower()
            made[name] = Contract(name, address)
            return address

        def do(name: str, function: str, *arguments) -> None:
            admin.transact(made[name].address, made[name].data(function, *arguments), name=function)

        parts = [
            create("Credit", ("uint256",), SUPPLY),
            create("Constants"),
            create("ProviderManager"),
        ]
        jobs = create("JobRepository")
        parts += [create("ProviderJobQueues", ("address",), jobs), jobs]
        grid = create("MetaScheduler", ("address",) * 5, *parts)
        do("JobRepository", "grantRole", META_SCHEDULER_ROLE, grid)
        do("ProviderManager", "grantRole", META_SCHEDULER_CONTRACT_ROLE, grid)
        do("ProviderJobQueues", "transferOwnership", grid)
        do("MetaScheduler", "grantRole", META_SCHEDULER_ROLE, self.operator.address)
        do("ProviderManager", "grantRole", META_SCHEDULER_ROLE, self.operator.address)
        return {name: contract.address for name, contract in made.items()}
