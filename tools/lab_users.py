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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridstead.adapters.chain.contract import ask
from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.wallet import create_wallet, load_wallet
from gridstead.wiring.contracts import deployment

CHECKOUT = Path(__file__).resolve().parents[1]
GRIDSTEAD = Path(sys.executable).with_name("gridstead")
CHAIN_ID = 179188
CONFIRMATIONS = 6
TIMEOUT_S = 300
CREDIT_WEI = 10**18
KEY_ITERATIONS = 1024  # With the default number, each command waits a second for the wallet's key.
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
    (user,) = customers(grid, [name], credits_=credits_)
    return user


def customers(grid: LabGrid, names: Iterable[str], *, credits_: int) -> tuple[User, ...]:
    """Return customers, each with at least ``credits_`` credits and with coins for gas."""
    users = []
    for name in names:
        keystore, password = grid.folder / f"{name}.json", grid.folder / f"secrets/wallet-{name}"
        if not keystore.exists():
            password.touch(mode=0o600)
            password.write_text(secrets.token_urlsafe(32) + "\n")
            create_wallet(keystore, password, iterations=KEY_ITERATIONS)
        users.append(_user(grid, name, keystore, password))
    _fund(grid, [user.address for user in users], credits_ * CREDIT_WEI)
    return tuple(users)


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


def _fund(grid: LabGrid, addresses: Sequence[str], credits_wei: int) -> None:
    """Give wallets coins for gas, and credits if they have less than ``credits_wei``.

    A file lock ensures that only one process at a time uses the administrator's wallet. Two
    transactions therefore never get the same nonce.
    """
    owner = administrator(grid)
    node = deployment.check_chain(grid.rpc_url, CHAIN_ID)
    try:
        contracts = find_contracts(node, grid.contract.lower())
        views = [contracts.credit.balance_of(address) for address in addresses]
        balances = ask(node, views, at_block=ChainLedger(node, contracts).head())
        poor = []
        for address, balance in zip(addresses, balances, strict=True):
            deployment.mint_devnet_coins(node, address, COINS_WEI // 2, COINS_WEI)
            if balance < credits_wei:
                poor.append(address)
        if not poor:
            return
        administration = Customer(node, contracts, load_wallet(owner.keystore, owner.password))
        with (grid.folder / "funding.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for address in poor:
                administration.mint(address, credits_wei)
    finally:
        node.close()
