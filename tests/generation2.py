# SPDX-License-Identifier: Apache-2.0
"""A chain with the contracts of release 2.0.0, whose artifacts are stored unchanged."""

from __future__ import annotations

from pathlib import Path

from tests.devnet import Devnet
from tests.old_contracts import OldContracts

from gridstead.adapters.chain.abi import CONTRACTS, read_document

RELEASE = "2.0.0"


class EarlierDevnet(Devnet):
    """A chain with a sealed set of release 2.0.0. The wallets are those of Devnet."""

    def _deploy(self, directory: Path) -> dict[str, str]:
        codes = {name: read_document(name, RELEASE)["bytecode"] for name in CONTRACTS}
        contracts = OldContracts(self, codes)
        addresses = contracts.deploy()
        contracts.seal()
        return addresses
