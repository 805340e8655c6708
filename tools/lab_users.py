# SPDX-License-Identifier: Apache-2.0
"""The users of the lab's grid: one administrator, and any number of customers.

Each user has a wallet and a settings file for `gridstead` in the lab's folder. Function customer()
creates the wallet of a new customer.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gridstead.adapters.chain.wallet import create_wallet
from gridstead.wiring.contracts import deployment

CHECKOUT = Path(__file__).resolve().parents[1]
GRIDSTEAD = Path(sys.executable).with_name("gridstead")
CHAIN_ID = 179188
CONFIRMATIONS = 6
TIMEOUT_S = 300
CREDIT_WEI = 10**18
COINS_WEI = 1_000 * 10**18

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
    """The grid of a running lab, read from the lab's folder."""

    folder: Path

    @property
    def control(self) -> str:
        """The address of the host that runs the grid's services."""
        state = json.loads((self.folder / "state.json").read_text())
        (host,) = state["members"]["devnet"]
        return str(state["hosts"][host]["address"])

    @property
    def contract(self) -> str:
        """The address of the MetaScheduler."""
        deployment_record = json.loads((self.chain / "deployment.json").read_text())
        return str(deployment_record["contracts"]["MetaScheduler"])

    @property
    def chain(self) -> Path:
        """The folder to which role devnet wrote the contracts' addresses and the admin's wallet."""
        return self.folder / "secrets" / "chain"

    @property
    def rpc_url(self) -> str:
        """The chain's endpoint."""
        return f"http://{self.control}:8545"

    @property
    def ca(self) -> Path:
        """The certificate of the lab's CA."""
        return self.folder / "secrets" / "pki" / "ca.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user with a wallet and a settings file."""

    name: str
    settings: Path
    keystore: Path
    password: Path

    @property
    def address(self) -> str:
        """The wallet's address, in lower case."""
        address = str(json.loads(self.keystore.read_text())["address"])
        return "0x" + address.lower().removeprefix("0x")

    def command(self, *arguments: str) -> list[str]:
        """Return the argument list of a `gridstead` command."""
        return [str(GRIDSTEAD), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which `gridstead` acts as this user."""
        return os.environ | {"GRIDSTEAD_CONFIG": str(self.settings)}

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `gridstead` command as this user."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            check=check,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )


def lab_grid(name: str | None = None) -> LabGrid:
    """Return the grid of a lab. The default is the lab $GRIDSTEAD_LAB_NAME or "default"."""
    lab_name = name or os.environ.get("GRIDSTEAD_LAB_NAME", "default")
    return LabGrid(folder=CHECKOUT / ".lab" / lab_name)


def administrator(grid: LabGrid) -> User:
    """Return the owner of the contracts. Role devnet stored the owner's wallet in the lab."""
    password = grid.folder / "secrets" / "wallet-admin"
    return _user(grid, "admin", grid.chain / "admin.json", password)


def customer(grid: LabGrid, name: str, *, credits_: int) -> User:
    """Return a customer with at least ``credits_`` credits and with coins for gas.

    A customer that does not exist yet gets a new wallet.
    """
    keystore, password = grid.folder / f"{name}.json", grid.folder / "secrets" / f"wallet-{name}"
    is_new = not keystore.exists()
    if is_new:
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(32) + "\n")
        create_wallet(keystore, password)
    user = _user(grid, name, keystore, password)
    balance_wei = 0
    if not is_new:
        answer = user.run("credit", "balance", "--json").stdout
        balance_wei = int(json.loads(answer)["balance_wei"])
    if balance_wei < credits_ * CREDIT_WEI:
        _fund(grid, user.address, credits_ * CREDIT_WEI)
    return user


def _user(grid: LabGrid, name: str, keystore: Path, password: Path) -> User:
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
    return User(name=name, settings=settings, keystore=keystore, password=password)


def _fund(grid: LabGrid, address: str, credits_wei: int) -> None:
    """Send coins for gas, and credits, to a wallet, as `gridstead devnet fund` does.

    A file lock ensures that only one process at a time uses the administrator's wallet. Two
    transactions therefore never get the same nonce.
    """
    owner = administrator(grid)
    admin = (owner.keystore, owner.password)
    node = deployment.check_chain(grid.rpc_url, CHAIN_ID)
    try:
        with (grid.folder / "funding.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            deployment.fund(node, admin, [address], minimum=COINS_WEI // 2, amount=COINS_WEI)
            deployment.mint(node, admin, grid.contract.lower(), address, credits_wei)
    finally:
        node.close()
