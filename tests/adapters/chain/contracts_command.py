# SPDX-License-Identifier: Apache-2.0
"""Runs `gridstead contracts` in this process and reads its output."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import pytest
from tests.devnet import wallet

from gridstead.adapters.chain.wallet import create_wallet
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.cli.main import main

# Numbers of wallets. The number of a wallet is also its private key. ADMIN has deployed the
# contracts, and POOR has no coins.
ADMIN, NEW_OWNER, POOR = 1, 71, 72
# Exit codes.
INPUT_ERROR, REFUSED, TRANSIENT_ERROR, CONFIG_ERROR = 65, 69, 75, 78
UNUSED_ADDRESS = "0x" + "12" * 20


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


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

    def read(self, *arguments, contract=None, group="contracts", **options):
        """Run a command of a command group without a wallet.

        The contract is by default the chain's MetaScheduler. Options are passed to the command.
        """
        options = {"rpc-url": self.chain.anvil.url} | options
        if "deployment" not in options:
            options["contract"] = contract or self.chain.addresses["MetaScheduler"]
        command = ["gridstead", group, *map(str, arguments)]
        for name, value in options.items():
            command.append(f"--{name}={value}")
        self._patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as end:
            main()
        out, err = self._capsys.readouterr()
        return CommandResult(code=end.value.code or 0, out=out, err=err)

    def run(self, *arguments, by=ADMIN, **options):
        """Run a command with the wallet of number ``by``."""
        wallet_options = {
            "admin-keystore": self.folder / str(by),
            "admin-password-file": self.folder / "password",
        }
        return self.read(*arguments, **(wallet_options | options))

    def transaction_count(self, number=ADMIN):
        """Return how many transactions a wallet has sent, including pending transactions."""
        address = wallet(number).address
        return int(self.chain.anvil.rpc("eth_getTransactionCount", address, "pending"), 16)

    def status(self, *arguments, **options):
        """Return the exit code and the document of `gridstead contracts status --json`."""
        result = self.read("status", "--json", *arguments, **options)
        return result.code, json.loads(result.out)


def inspect(chain):
    """Return the state of the chain's contracts."""
    return Inspector(chain.node, chain.contracts, report=lambda _: None).inspect()


def holders(status, role):
    """Return the holders of a role in a status document, as pairs of contract and account."""
    pairs = set()
    for entry in status["roles"]:
        if entry["role"] == role:
            pairs.add((entry["contract"], entry["account"]))
    return pairs


def accounts(status, role):
    """Return the accounts that, in a status document, hold a role in at least one contract."""
    return {account for _, account in holders(status, role)}


def field_values(entries, field):
    """Return the set of the values that a field has in the entries."""
    return {entry[field] for entry in entries}


def contract_addresses(status):
    """Return the addresses in a status document, by contract."""
    return {entry["contract"]: entry["address"] for entry in status["contracts"]}
