# SPDX-License-Identifier: Apache-2.0
"""People of the lab's grid: an administrator, and as many customers as one likes.

Each has a wallet, made when first needed, and a settings file for `gridstead`, all in the lab's
folder.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gridstead.adapters.chain.wallet import create_wallet
from gridstead.wiring import deployment

CHECKOUT = Path(__file__).resolve().parents[1]
GRIDSTEAD = Path(sys.executable).with_name("gridstead")
CHAIN_ID = 179188
CONFIRMATIONS = 6
TIMEOUT_S = 300
CREDIT = 10**18
COINS = 1_000 * 10**18

_SETTINGS = """\
job_definitions_url = "https://{control}:8443/graphql"
queue_url = "https://{control}:8447"
ca_file = "{ca}"

[chain]
rpc_url = "http://{control}:8545"
chain_id = {chain_id}
contract = "{contract}"
confirmations = {confirmations}

[wallet]
keystore_file = "{keystore}"
password_file = "{password}"

[logger]
endpoint = "{control}:8445"
ca_file = "{ca}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabGrid:
    """The grid of a standing lab, as the lab's folder describes it."""

    folder: Path

    @property
    def control(self) -> str:
        """Address of the host with the grid's services."""
        state = json.loads((self.folder / "state.json").read_text())
        (host,) = state["members"]["devnet"]
        return str(state["hosts"][host]["address"])

    @property
    def contract(self) -> str:
        """Address of the MetaScheduler."""
        return str(
            json.loads((self.chain / "deployment.json").read_text())["contracts"]["MetaScheduler"]
        )

    @property
    def chain(self) -> Path:
        """What role devnet left of the chain: the contracts' addresses, and the administrator's
        wallet.
        """
        return self.folder / "secrets" / "chain"

    @property
    def rpc_url(self) -> str:
        """The chain's endpoint."""
        return f"http://{self.control}:8545"

    @property
    def ca(self) -> Path:
        """Certificate of the lab's own CA."""
        return self.folder / "secrets" / "pki" / "ca.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with a wallet and a settings file."""

    name: str
    settings: Path
    keystore: Path
    password: Path

    @property
    def address(self) -> str:
        """The wallet, lower case."""
        return "0x" + str(json.loads(self.keystore.read_text())["address"]).lower().removeprefix(
            "0x"
        )

    def command(self, *arguments: str) -> list[str]:
        """Return the argument list of a `gridstead` command."""
        return [str(GRIDSTEAD), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which `gridstead` is this person."""
        return os.environ | {"GRIDSTEAD_CONFIG": str(self.settings)}

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `gridstead` command as this person."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment, check=check, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip


def lab_grid(name: str | None = None) -> LabGrid:
    """Return the grid of a lab: the named one, else $GRIDSTEAD_LAB_NAME, else default."""
    return LabGrid(
        folder=CHECKOUT / ".lab" / (name or os.environ.get("GRIDSTEAD_LAB_NAME", "default"))
    )


def administrator(grid: LabGrid) -> Person:
    """Return who owns the contracts; role devnet left the wallet beside the lab's secrets."""
    password = grid.folder / "secrets" / "wallet-admin"
    return _person(grid, "admin", grid.chain / "admin.json", password)


def customer(grid: LabGrid, name: str, *, credits_: int) -> Person:
    """Return a customer with at least so many credits, and coins for gas; made if there is none of
    this name.
    """
    keystore, password = grid.folder / f"{name}.json", grid.folder / "secrets" / f"wallet-{name}"
    is_new = not keystore.exists()
    if is_new:
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(32) + "\n")
        create_wallet(keystore, password)
    person = _person(grid, name, keystore, password)
    has = (
        0
        if is_new
        else int(json.loads(person.run("credit", "balance", "--json").stdout)["balance_wei"])
    )
    if has < credits_ * CREDIT:
        _give(grid, person.address, credits_ * CREDIT)
    return person


def _person(grid: LabGrid, name: str, keystore: Path, password: Path) -> Person:
    settings = grid.folder / f"{name}.toml"
    settings.write_text(
        _SETTINGS.format(
            control=grid.control,
            contract=grid.contract,
            ca=grid.ca,
            chain_id=CHAIN_ID,
            confirmations=CONFIRMATIONS,
            keystore=keystore,
            password=password,
        )
    )
    return Person(name=name, settings=settings, keystore=keystore, password=password)


def _give(grid: LabGrid, address: str, credits_: int) -> None:
    """Give a wallet coins for gas, and credits (wei), from the administrator; as `gridstead devnet
    fund` does.
    """
    one = administrator(grid)
    admin = (one.keystore, one.password)
    node = deployment.check_chain(grid.rpc_url, CHAIN_ID)
    try:
        deployment.fund(node, admin, [address], least=COINS // 2, amount=COINS)
        deployment.mint(node, admin, grid.contract.lower(), address, credits_)
    finally:
        node.close()
