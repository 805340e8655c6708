# SPDX-License-Identifier: Apache-2.0
"""A chain for tests: an anvil node on a free port with the grid's contracts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.node import Node
from gridstead.adapters.chain.wallet import Wallet, wallet_of
from gridstead.adapters.contracts.deploy import Deployment
from gridstead.domain.contracts.setup import DeploymentOptions

CHAIN_ID = 179188
COIN = 10**18
SUPPLY = 10**9 * COIN
ROOT = Path(__file__).parents[1]
INSTALLED_ANVIL = ROOT / "contracts/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
ANVIL = Path(os.environ.get("GRIDSTEAD_ANVIL", INSTALLED_ANVIL))


def wallet(number: int) -> Wallet:
    """Return the test wallet whose private key is this number."""
    return wallet_of(number.to_bytes(32))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Anvil:
    """A running anvil process.

    Args:
        options: Further command-line options.
        port: The port to listen on. None selects a free port.
    """

    def __init__(self, *options: str, port: int | None = None) -> None:
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        chain = ["--chain-id", str(CHAIN_ID), "--prune-history", "10000", "--accounts", "0"]
        command = [ANVIL, "--silent", "--port", str(self.port), *chain, *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self._wait_until_ready()

    def rpc(self, method: str, *params):
        """Return the result of a JSON-RPC request."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            document = json.load(response)
        if "error" in document:
            raise AssertionError(f"{method}: {document['error']}")
        return document["result"]

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks with the transactions in the pool."""
        for _ in range(blocks):
            self.rpc("evm_mine")

    def mine_at_intervals(self, blocks: int, interval_s: int = 1) -> None:
        """Mine blocks whose timestamps are ``interval_s`` seconds apart.

        The blocks are mined in portions, so that a busy machine answers each request in time.
        """
        while blocks > 0:
            portion = min(blocks, 200)
            self.rpc("anvil_mine", hex(portion), hex(interval_s))
            blocks -= portion

    def reorg(self, depth: int) -> None:
        """Replace the last ``depth`` blocks by empty blocks. The transactions are lost."""
        self.rpc("anvil_reorg", depth, [])

    def fund(self, address: str, coins: int = 1000) -> None:
        """Set the balance from which a wallet pays for gas."""
        self.rpc("anvil_setBalance", address, hex(coins * COIN))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the process as systemd does. Anvil writes its state if it has option --state."""
        self._process.terminate()
        self._process.wait(timeout=20)

    def _wait_until_ready(self) -> None:
        """Wait until anvil answers. Raises OSError if anvil ends or does not answer in 20 s."""
        deadline = time.monotonic() + 20
        while True:
            try:
                self.rpc("eth_chainId")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise
                time.sleep(0.02)
            else:
                return


class Devnet:
    """A chain with the grid's contracts, and wallets for admin, operator, provider and customer."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.anvil = Anvil(*options)
        self.admin = wallet(1)
        self.operator = wallet(2)
        self.provider = wallet(3)
        self.customer = wallet(4)
        for owner in (self.admin, self.operator, self.provider, self.customer):
            self.anvil.fund(owner.address)
        self.node = Node(self.anvil.url)
        self.addresses = self._deploy(directory)
        self.contracts = find_contracts(self.node, self.addresses["MetaScheduler"])
        self.as_admin = Customer(self.node, self.contracts, self.admin)
        self.as_customer = Customer(self.node, self.contracts, self.customer)
        self.as_admin.transfer(self.customer.address, 10**6 * COIN)
        self.as_customer.allow(10**6 * COIN)

    def _deploy(self, directory: Path) -> dict[str, str]:
        """Deploy the contracts and return their addresses by name."""
        options = DeploymentOptions(operator=self.operator.address, supply=SUPPLY)
        path = directory / "deployment.json"
        deployment = Deployment(self.node, self.admin, path, options, report=lambda _: None)
        return deployment.run().contracts

    def close(self) -> None:
        """Stop the chain."""
        self.node.close()
        self.anvil.kill()
