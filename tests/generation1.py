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

from tests.devnet import ROOT, Devnet
from tests.old_contracts import OldContracts

CONTRACTS = ROOT / "contracts"
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
        codes = {
            name: document["bytecode"]["object"] for name, document in build_artifacts().items()
        }
        return OldContracts(self, codes).deploy()
