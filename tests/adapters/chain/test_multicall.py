# SPDX-License-Identifier: Apache-2.0
"""Multicall on a development chain, at the address that is compiled into published clients."""

from __future__ import annotations

import json

import pytest
from eth_utils.address import to_checksum_address
from tests.adapters.chain.contracts_command import NEW_OWNER
from tests.devnet import Anvil, Devnet
from web3 import HTTPProvider, Web3
from web3.exceptions import ContractLogicError

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.node import Node
from gridstead.adapters.contracts.multicall import place_multicall

# The address and the ABI of aggregate3 in published clients. Our own ABI is not used here.
CLIENT_ADDRESS = "0xad25E3e89e005EE6b1d9a4723DE82b2D591779d2"
CLIENT_ABI = json.loads("""[{
  "type": "function", "name": "aggregate3", "stateMutability": "payable",
  "inputs": [{"name": "calls", "type": "tuple[]", "components": [
    {"name": "target", "type": "address"},
    {"name": "allowFailure", "type": "bool"},
    {"name": "callData", "type": "bytes"}]}],
  "outputs": [{"name": "returnData", "type": "tuple[]", "components": [
    {"name": "success", "type": "bool"},
    {"name": "returnData", "type": "bytes"}]}]
}]""")


def aggregate3(url, *calls):
    """Return the results of calls through Multicall, as a client with web3 makes them."""
    web3 = Web3(HTTPProvider(url, request_kwargs={"timeout": 20}))
    return web3.eth.contract(CLIENT_ADDRESS, abi=CLIENT_ABI).functions.aggregate3(calls).call()


def call_symbol(devnet):
    """Return a call of a function that succeeds."""
    data = artifact("Credit").functions["symbol"].encode()
    return (to_checksum_address(devnet.addresses["Credit"]), False, data)


def call_transfer(devnet, *, allow_failure):
    """Return a call of a function that reverts, because Multicall has no credits."""
    data = artifact("Credit").functions["transfer"].encode(devnet.customer.address, 1)
    return (to_checksum_address(devnet.addresses["Credit"]), allow_failure, data)


def place(url):
    """Place the contract with a new connection. Return whether the chain was changed."""
    node = Node(url)
    try:
        return place_multicall(node)
    finally:
        node.close()


def test_client_reads_the_results_of_several_calls(chain):
    place(chain.anvil.url)

    transfer, symbol = aggregate3(
        chain.anvil.url, call_transfer(chain, allow_failure=True), call_symbol(chain)
    )

    assert symbol[0] is True
    assert b"CRED" in symbol[1]
    assert transfer[0] is False
    assert b"ERC20: transfer amount exceeds balance" in transfer[1]


def test_failure_that_the_client_does_not_allow_reverts(chain):
    place(chain.anvil.url)

    with pytest.raises(ContractLogicError, match="Multicall3: call failed"):
        aggregate3(chain.anvil.url, call_symbol(chain), call_transfer(chain, allow_failure=False))


def test_contract_is_placed_once(chain):
    results = [place(chain.anvil.url), place(chain.anvil.url)]

    assert results == [True, False]


def test_other_code_at_the_address_is_replaced(chain):
    chain.anvil.rpc("anvil_setCode", CLIENT_ADDRESS, "0x00")

    assert place(chain.anvil.url) is True
    assert aggregate3(chain.anvil.url, call_symbol(chain))[0][0] is True


def test_client_calls_the_contract_after_a_restart_of_the_chain(tmp_path):
    state = ("--state", str(tmp_path / "state.json"))
    devnet = Devnet(tmp_path, *state)
    place(devnet.anvil.url)
    devnet.node.close()
    devnet.anvil.stop()

    restarted_anvil = Anvil(*state)

    try:
        ((success, data),) = aggregate3(restarted_anvil.url, call_symbol(devnet))
        is_changed = place(restarted_anvil.url)
    finally:
        restarted_anvil.kill()
    assert success is True
    assert b"CRED" in data
    assert is_changed is False


@pytest.fixture
def devnet_init(contracts_cli, tmp_path):
    """Return a function that runs `gridstead devnet init --json` and returns its document."""
    keystore = tmp_path / str(NEW_OWNER)
    options = {
        "meta-scheduler-keystore": keystore,
        "fund-keystore": keystore,
        "deployment": tmp_path / "grid.json",
    }

    def run():
        result = contracts_cli.run("init", "--json", group="devnet", **options)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return run


def test_init_of_a_development_chain_places_the_contract(chain, devnet_init):
    first_document, second_document = devnet_init(), devnet_init()

    assert f"{CLIENT_ADDRESS} has the code of Multicall" in first_document["steps"]
    assert second_document == {"changed": False, "steps": []}
    assert aggregate3(chain.anvil.url, call_symbol(chain))[0][0] is True
