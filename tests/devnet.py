# SPDX-License-Identifier: Apache-2.0
"""A real chain for a test session: anvil on a free port, with the grid's contracts on it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.deploy import Deployment
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet, wallet_of

CHAIN_ID = 179188
COIN = 10**18
SUPPLY = 10**9 * COIN
ROOT = Path(__file__).parents[1]
ANVIL = Path(
    os.environ.get(
        "GRIDSTEAD_ANVIL", ROOT / "contracts/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
    )
)


def wallet(number: int) -> Wallet:
    """Return one of the tests' wallets; each number is a wallet of its own."""
    return wallet_of(number.to_bytes(32))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Anvil:
    """A running anvil.

    Args:
        options: More of its command line.
    """

    def __init__(self, *options: str, port: int | None = None) -> None:
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [
            ANVIL,
            "--silent",
            "--chain-id",
            str(CHAIN_ID),
            "--port",
            str(self.port),
            "--prune-history",
            "10000",
        ]
        self._process = subprocess.Popen(
            [*command, "--accounts", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._wait()

    def rpc(self, method: str, *params):
        """Return the answer to a request."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as response:
            answer = json.load(response)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks with what is in the pool."""
        for _ in range(blocks):
            self.rpc("evm_mine")

    def reorg(self, depth: int) -> None:
        """Replace the last blocks by empty ones; their transactions are gone."""
        self.rpc("anvil_reorg", depth, [])

    def fund(self, address: str, coins: int = 1000) -> None:
        """Give a wallet coins for gas."""
        self.rpc("anvil_setBalance", address, hex(coins * COIN))

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        end = time.monotonic() + 20
        while True:
            try:
                self.rpc("eth_chainId")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    self.kill()
                    raise
                time.sleep(0.02)
            else:
                return


class Devnet:
    """A chain with the grid's contracts, an administrator, a provider and a customer with credits."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.anvil = Anvil(*options)
        self.admin, self.operator, self.provider, self.customer = (
            wallet(number) for number in (1, 2, 3, 4)
        )
        for one in (self.admin, self.operator, self.provider, self.customer):
            self.anvil.fund(one.address)
        self.node = Node(self.anvil.url)
        self.addresses = self._deploy(directory)
        self.contracts = find_contracts(self.node, self.addresses["MetaScheduler"])
        self.as_admin = Customer(self.node, self.contracts, self.admin)
        self.as_customer = Customer(self.node, self.contracts, self.customer)
        self.as_admin.transfer(self.customer.address, 10**6 * COIN)
        self.as_customer.allow(10**6 * COIN)

    def _deploy(self, directory: Path) -> dict[str, str]:
        """Put a grid's contracts on the chain and return their addresses by name."""
        deployment = Deployment(
            self.node, self.admin, directory / "deployment.json", tell=lambda _: None
        )
        return deployment.run(operator=self.operator.address, supply=SUPPLY)

    def close(self) -> None:
        """End the chain."""
        self.node.close()
        self.anvil.kill()
