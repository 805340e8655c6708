# SPDX-License-Identifier: Apache-2.0
"""Deployments on chains without the standard deployer."""

from __future__ import annotations

import pytest
from tests.adapters.chain.deploying import ADMIN, STEP_COUNT, DeploymentSite, planned_addresses
from tests.devnet import Anvil

from gridstead.adapters.chain.node import Node, RpcError
from gridstead.adapters.contracts.deployment_file import read
from gridstead.adapters.contracts.factory import (
    KEYLESS_GAS_PRICE_WEI,
    KEYLESS_TRANSACTION,
    STANDARD_FACTORY,
    create_own_factory,
    has_factory,
)
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.contracts.checks import check_contracts
from gridstead.errors import ChainUnavailable, ConfigError

UNUSED_ADDRESS = "0x" + "12" * 20


class BareChain:
    """A chain without the standard deployer and without contracts."""

    def __init__(self):
        self.anvil = Anvil("--disable-default-create2-deployer")
        self.node = Node(self.anvil.url)
        self.anvil.fund(ADMIN.address)

    def close(self):
        self.node.close()
        self.anvil.kill()


@pytest.fixture
def bare_site(tmp_path, monkeypatch):
    """A chain without the standard deployer, and the path of a new deployment file."""
    monkeypatch.setattr("gridstead.adapters.transactions.direct.POLL_S", 0.01)
    chain = BareChain()
    site = DeploymentSite(chain, tmp_path / "deployment.json")
    yield site
    for node in site.nodes:
        node.close()
    chain.close()


class RefusingNode(Node):
    """A node that refuses transactions without a chain id, as geth does by default."""

    message = "only replay-protected (EIP-155) transactions allowed over RPC"

    def batch(self, requests):
        if requests == [("eth_sendRawTransaction", [KEYLESS_TRANSACTION])]:
            return [RpcError(code=-32000, message=self.message, data="")]
        return super().batch(requests)


class BusyNode(RefusingNode):
    """A node that does not accept the transaction now."""

    message = "the transaction pool is full"


class LaggingNode(Node):
    """An endpoint whose nodes have the coins for the keyless transaction only after some time."""

    refusals = 3

    def batch(self, requests):
        is_keyless = requests == [("eth_sendRawTransaction", [KEYLESS_TRANSACTION])]
        if is_keyless and self.refusals > 0:
            self.refusals -= 1
            return [RpcError(code=-32000, message="insufficient funds for gas", data="")]
        return super().batch(requests)


class ExpensiveNode(Node):
    """A node of a chain on which gas is more expensive than the keyless transaction pays."""

    def batch(self, requests):
        answers = super().batch(requests)
        if requests == [("eth_getBlockByNumber", ["latest", False])]:
            answers[0]["baseFeePerGas"] = hex(KEYLESS_GAS_PRICE_WEI + 1)
        return answers


def test_lagging_nodes_do_not_lead_to_another_deployer(bare_site):
    addresses = bare_site.run(bare_site.node(LaggingNode))

    bare_site.check(addresses, other_transactions=1)  # the coins for the transaction


def test_deployment_waits_for_fees_that_the_keyless_transaction_pays(bare_site):
    with pytest.raises(ChainUnavailable, match="could not create the deployer") as error:
        bare_site.run(bare_site.node(ExpensiveNode))

    assert "base fee" in error.value.detail
    assert bare_site.next_nonce() == 0


def test_own_deployer_is_not_created_if_its_address_cannot_be_stored(bare_site):
    bare_site.path = bare_site.path.parent / "missing" / "deployment.json"

    with pytest.raises(ConfigError, match="missing"):
        bare_site.run(bare_site.node(RefusingNode))

    assert bare_site.next_nonce() == 0


def test_standard_deployer_is_created_where_the_chain_takes_its_transaction(bare_site):
    addresses = bare_site.run()

    assert has_factory(bare_site.chain.node, STANDARD_FACTORY)
    bare_site.check(addresses, other_transactions=1)  # the coins for the transaction
    assert bare_site.run() == addresses


def test_own_deployer_is_created_and_printed_where_the_chain_refuses_the_standard_one(bare_site):
    node = bare_site.node(RefusingNode)

    addresses = bare_site.run(node)

    deployer = read(bare_site.path).deployer
    assert deployer != STANDARD_FACTORY
    assert addresses == planned_addresses(deployer)
    assert any(line.endswith(f"use --deployer {deployer}") for line in bare_site.reported)
    assert bare_site.next_nonce() == STEP_COUNT + 1  # the creation of the deployer
    assert check_contracts(bare_site.inspect(addresses), expected=addresses) == ()


def test_interrupted_deployment_continues_with_its_own_deployer(bare_site):
    node = bare_site.node(RefusingNode)
    deployer = create_own_factory(DirectSender(node, ADMIN))
    bare_site.run(node, deployer=deployer, salt="first")
    bare_site.path.unlink()

    addresses = bare_site.run(node, deployer=deployer)

    assert addresses == planned_addresses(deployer)
    assert bare_site.run(node) == addresses
    assert read(bare_site.path).deployer == deployer
    assert not has_factory(bare_site.chain.node, STANDARD_FACTORY)


def test_address_without_the_code_of_the_deployer_is_refused(bare_site):
    with pytest.raises(ConfigError, match=f"there is no deployer at {UNUSED_ADDRESS}"):
        bare_site.run(deployer=UNUSED_ADDRESS)

    assert bare_site.next_nonce() == 0
    assert not bare_site.path.exists()


def test_busy_node_does_not_lead_to_another_deployer(bare_site):
    with pytest.raises(ChainUnavailable, match="could not create the deployer"):
        bare_site.run(bare_site.node(BusyNode))

    assert bare_site.next_nonce() == 0


def test_plan_without_a_deployer_has_the_addresses_of_the_next_run(bare_site):
    steps = bare_site.plan_steps()

    assert len(steps) == STEP_COUNT
    assert {step.contract: step.creates for step in steps if step.creates} == planned_addresses()
    assert {step.gas for step in steps} == {None}
    assert "the chain has no deployer yet" in bare_site.reported[0]
    assert bare_site.next_nonce() == 0
