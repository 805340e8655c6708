# SPDX-License-Identifier: Apache-2.0
"""Runs `gridstead contracts` in this process."""

from __future__ import annotations

import json
import sys

import pytest
from tests.devnet import wallet

from gridstead.adapters.chain.wallet import create_wallet
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.cli.main import main

ADMIN, NEW_OWNER, POOR = 1, 71, 72  # numbers of wallets; ADMIN has deployed the contracts
INPUT, REFUSED, LATER, CONFIG = 65, 69, 75, 78
NOWHERE = "0x" + "12" * 20


class ContractsCli:
    """Runs `gridstead contracts` with several wallets."""

    def __init__(self, chain, folder, monkeypatch, capsys):
        self.chain, self.folder, self._patch, self._capsys = chain, folder, monkeypatch, capsys
        (folder / "password").write_text("a secret\n")
        for number in (ADMIN, NEW_OWNER, POOR):
            create_wallet(
                folder / str(number), folder / "password", key=number.to_bytes(32), iterations=2
            )
        chain.anvil.fund(wallet(NEW_OWNER).address)

    def read(self, *arguments, contract=None, **options):
        """Run a command without a wallet; return exit code, stdout and stderr."""
        options = {"rpc-url": self.chain.anvil.url} | options
        if "deployment" not in options:
            options["contract"] = contract or self.chain.addresses["MetaScheduler"]
        option_texts = [f"--{key}={value}" for key, value in options.items()]
        words = ["gridstead", "contracts", *map(str, arguments), *option_texts]
        self._patch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *self._capsys.readouterr()

    def run(self, *arguments, by=ADMIN, **options):
        """Run a command with a wallet."""
        keys = {
            "admin-keystore": self.folder / str(by),
            "admin-password-file": self.folder / "password",
        }
        return self.read(*arguments, **(keys | options))

    def sent(self, number=ADMIN):
        return int(
            self.chain.anvil.rpc("eth_getTransactionCount", wallet(number).address, "pending"), 16
        )

    def status(self, *arguments, **options):
        code, out, _ = self.read("status", "--json", *arguments, **options)
        return code, json.loads(out)


def inspect(chain):
    return Inspector(chain.node, chain.contracts, report=lambda _: None).inspect()


def holders(status, role):
    entries = [entry for entry in status["roles"] if entry["role"] == role]
    return {(entry["contract"], entry["account"]) for entry in entries}
