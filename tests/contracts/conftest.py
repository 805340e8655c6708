# SPDX-License-Identifier: Apache-2.0
"""A local chain and the compiled contracts, for the tests of ``contracts/``."""

import itertools
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
ACCOUNTS = 20  # with coins, whose keys the node has


def _find_tool(name):
    """Return the path of a program: in this checkout if it is installed here, otherwise in PATH.

    If the program is missing, the test fails in CI and is skipped on other machines.
    """
    installed_programs = sorted(CONTRACTS.glob(f"node_modules/@foundry-rs/{name}-*/bin/{name}"))
    installed_programs += ROOT.glob(f".venv/{name}/bin/{name}")
    path = installed_programs[0] if installed_programs else shutil.which(name)
    if path is None:
        message = f"{name} is not installed; run make setup"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return Path(path)


@pytest.fixture(scope="session")
def contracts_dir():
    return CONTRACTS


@pytest.fixture(scope="session")
def forge_path():
    return _find_tool("forge")


@pytest.fixture(scope="session")
def slither():
    return _find_tool("slither")


@pytest.fixture(scope="session")
def forge(forge_path):
    """Return a function that runs forge in contracts/ and returns the result of the process.

    The keyword arguments of the function are environment variables.
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
def read_exceptions():
    """Return a function that returns the entries of a table of contracts/exceptions.toml."""
    document = tomllib.loads((CONTRACTS / "exceptions.toml").read_text())
    for entry in itertools.chain.from_iterable(document.values()):
        assert entry["reason"], entry

    def read_table(table):
        return document.get(table, [])

    return read_table


@pytest.fixture(scope="session")
def read_compiled(forge):
    """Return a function that reads the ABI and the bytecode of a compiled contract or test."""
    result = forge("build", "--quiet")
    assert result.returncode == 0, result.stderr

    def read(file, name):
        document = json.loads((CONTRACTS / "out" / file / f"{name}.json").read_text())
        return document["abi"], document["bytecode"]["object"]

    return read


@pytest.fixture(scope="session")
def read_artifact():
    """Return a function that reads a contract's artifact (ABI and code) in the Python package."""

    def read(name):
        return json.loads((ROOT / "control" / "gridstead" / "abi" / f"{name}.json").read_text())

    return read


@pytest.fixture(scope="session")
def chain():
    """Return a web3 client of a new chain that mines each transaction immediately."""
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
        "--accounts",
        str(ACCOUNTS),
    ]
    anvil = subprocess.Popen([_find_tool("anvil"), "--silent", "--prune-history", *arguments])
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
    """Return a function that deploys a contract as the first account and returns the contract."""

    def deploy_contract(abi, bytecode, *arguments):
        factory = chain.eth.contract(abi=abi, bytecode=bytecode)
        transaction = factory.constructor(*arguments).transact({"from": chain.eth.accounts[0]})
        receipt = chain.eth.wait_for_transaction_receipt(transaction)
        assert receipt.status == 1
        return chain.eth.contract(address=receipt.contractAddress, abi=abi)

    return deploy_contract
