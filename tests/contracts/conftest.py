# SPDX-License-Identifier: Apache-2.0
"""A local chain and the compiled contracts, for the tests of ``contracts/``."""

import json
import os
import shutil
import socket
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from web3 import HTTPProvider, Web3

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "contracts"
CHAIN_ID = 179188
BLOCK_GAS_LIMIT = 30_000_000


def _tool(name):
    """Return the path of a program: that of this checkout, else the one in the PATH.

    If it is missing, the test fails in CI and is skipped elsewhere.
    """
    installed = sorted(CONTRACTS.glob(f"node_modules/@foundry-rs/{name}-*/bin/{name}"))
    installed += ROOT.glob(f".venv/{name}/bin/{name}")
    path = installed[0] if installed else shutil.which(name)
    if path is None:
        message = f"{name} is not installed (make setup)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return Path(path)


@pytest.fixture(scope="session")
def contracts_dir():
    return CONTRACTS


@pytest.fixture(scope="session")
def forge_path():
    return _tool("forge")


@pytest.fixture(scope="session")
def slither():
    return _tool("slither")


@pytest.fixture(scope="session")
def forge(forge_path):
    """Return a function that runs forge in contracts/ and returns the finished process.

    Its keyword arguments are added to the environment.
    """

    def run(*arguments, **environment):
        return subprocess.run(
            [forge_path, *arguments],
            cwd=CONTRACTS,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def exceptions():
    """Return a function that returns the entries of a table of contracts/exceptions.toml."""
    document = tomllib.loads((CONTRACTS / "exceptions.toml").read_text())
    assert all(entry["reason"] for entries in document.values() for entry in entries)

    def read(table):
        return document.get(table, [])

    return read


@pytest.fixture(scope="session")
def compiled(forge):
    """Return a function that reads a compiled contract; also one of the forge tests."""
    built = forge("build", "--quiet")
    assert built.returncode == 0, built.stderr

    def read(file, name):
        document = json.loads((CONTRACTS / "out" / file / f"{name}.json").read_text())
        return document["abi"], document["bytecode"]["object"]

    return read


@pytest.fixture(scope="session")
def artifact():
    """Return a function that reads an artifact of the Python package."""

    def read(name):
        return json.loads((ROOT / "control" / "gridstead" / "abi" / f"{name}.json").read_text())

    return read


@pytest.fixture(scope="session")
def chain():
    """Return web3 on a new chain that mines each transaction at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [
        "--port",
        str(port),
        "--chain-id",
        str(CHAIN_ID),
        "--gas-limit",
        str(BLOCK_GAS_LIMIT),
    ]
    anvil = subprocess.Popen([_tool("anvil"), "--silent", "--prune-history", *arguments])
    web3 = Web3(HTTPProvider(f"http://127.0.0.1:{port}", request_kwargs={"timeout": 30}))
    try:
        deadline = time.monotonic() + 20
        while not web3.is_connected():
            assert time.monotonic() < deadline, "anvil does not answer"
            time.sleep(0.05)
        yield web3
    finally:
        anvil.terminate()
        anvil.wait(timeout=10)


@pytest.fixture(scope="session")
def deploy(chain):
    """Return a function that deploys a contract from the first account, and returns it."""

    def create(abi, bytecode, *arguments):
        factory = chain.eth.contract(abi=abi, bytecode=bytecode)
        transaction = factory.constructor(*arguments).transact({"from": chain.eth.accounts[0]})
        receipt = chain.eth.wait_for_transaction_receipt(transaction)
        assert receipt.status == 1
        return chain.eth.contract(address=receipt.contractAddress, abi=abi)

    return create
