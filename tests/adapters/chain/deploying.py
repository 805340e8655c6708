# SPDX-License-Identifier: Apache-2.0
"""Deployments of the contracts on a chain, and nodes that interrupt a deployment at any step.

"The set" of a deployment is the group of contracts that it creates.
"""

from __future__ import annotations

import json
import time

import pytest
from tests.devnet import COIN, SUPPLY, Devnet, wallet
from tests.fakes.crash import Crash

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.node import Node
from gridstead.adapters.contracts.blueprint import plan_set, salt_of_set
from gridstead.adapters.contracts.deploy import Deployment
from gridstead.adapters.contracts.deployment_file import read
from gridstead.adapters.contracts.factory import STANDARD_FACTORY
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.checks import check_contracts
from gridstead.domain.contracts.setup import DeploymentOptions

ADMIN, OPERATOR = wallet(66), wallet(67)
STEP_COUNT = 12  # each step is one transaction
CREATION_COUNT = 6  # the first steps create the contracts
SEND_METHOD = "eth_sendRawTransaction"
MINING_METHODS = ("eth_getTransactionReceipt", "eth_getTransactionCount")


def has_method(requests, *methods):
    """Return whether one of the JSON-RPC requests calls one of these methods."""
    return any(request_method in methods for request_method, _ in requests)


def options(**changes):
    """Return the options of a deployment."""
    return DeploymentOptions(**({"operator": OPERATOR.address, "supply": COIN} | changes))


def planned_addresses(deployer=STANDARD_FACTORY, salt="", supply=COIN):
    """Return the addresses of the contracts of ADMIN's set, by name."""
    set_salt = salt_of_set(salt, admin=ADMIN.address, supply=supply)
    contracts = plan_set(deployer, set_salt, admin=ADMIN.address, supply=supply)
    return {contract.name: contract.address for contract in contracts}


class CrashingNode(Node):
    """A node whose client dies before or after it sends transaction number ``position``."""

    def __init__(self, url, position, *, sent):
        super().__init__(url)
        self._transactions_before_crash = position - 1
        self._is_sent = sent

    def batch(self, requests):
        if not has_method(requests, SEND_METHOD):
            return super().batch(requests)
        if self._transactions_before_crash > 0:
            self._transactions_before_crash -= 1
            return super().batch(requests)
        if self._is_sent:
            super().batch(requests)
        raise Crash


class MiningNode(Node):
    """A node that mines a block whenever a receipt or a number of transactions is requested."""

    def batch(self, requests):
        if has_method(requests, *MINING_METHODS):
            super().batch([("evm_mine", [])])
        return super().batch(requests)


class UnsealedDevnet(Devnet):
    """A chain with the contracts of a deployment that was interrupted before its last step."""

    def _deploy(self, directory):
        path = directory / "deployment.json"
        node = CrashingNode(self.anvil.url, STEP_COUNT, sent=False)
        unsealed_options = options(operator=self.operator.address, supply=SUPPLY)
        deployment = Deployment(node, self.admin, path, unsealed_options, report=lambda _: None)
        with pytest.raises(Crash):
            deployment.run()
        node.close()
        return read(path).contracts


class DeploymentSite:
    """A chain and the path of a deployment file; runs deployments and checks their results."""

    def __init__(self, chain, path):
        self.chain, self.path = chain, path
        self.reported, self.nodes = [], []

    def node(self, node_class, *arguments, **parameters):
        """Return a new node of this class, which the fixture closes."""
        self.nodes.append(node_class(self.chain.anvil.url, *arguments, **parameters))
        return self.nodes[-1]

    def deployment(self, node=None, *, admin=ADMIN, renew=False, **changes):
        """Return a deployment. ``changes`` are the options that differ from the usual ones."""
        return Deployment(
            node or self.chain.node,
            admin,
            self.path,
            options(**changes),
            report=self.reported.append,
            renew=renew,
        )

    def run(self, node=None, **parameters):
        """Deploy the contracts, and return their addresses by contract."""
        return self.deployment(node, **parameters).run().contracts

    def plan_steps(self, **parameters):
        return self.deployment(**parameters).plan_steps()

    def crash(self, position, *, sent):
        """Deploy until the client dies before or after it sends transaction ``position``."""
        with pytest.raises(Crash):
            self.run(self.node(CrashingNode, position, sent=sent))
        self.wait_for_mining()

    def leave_pending(self, position):
        """Crash after each transaction up to number ``position``. Leave the last one pending."""
        if position > 1:
            self.crash(position - 1, sent=True)
        self.chain.anvil.rpc("evm_setAutomine", False)
        self.crash(1, sent=True)

    def wait_for_mining(self):
        """Wait until all transactions are mined. Return at once if automatic mining is off."""
        deadline = time.monotonic() + 60
        while self._is_automining() and self.next_nonce() < self.next_nonce("pending"):
            assert time.monotonic() < deadline

    def _is_automining(self):
        return self.chain.anvil.rpc("anvil_getAutomine")

    def next_nonce(self, block="latest"):
        """Return ADMIN's next nonce at a block: the number of transactions that ADMIN has sent."""
        return int(self.chain.anvil.rpc("eth_getTransactionCount", ADMIN.address, block), 16)

    def has_code(self, address):
        return self.chain.anvil.rpc("eth_getCode", address, "latest") != "0x"

    def keep_only_fields_of_earlier_releases(self):
        """Rewrite the deployment file as an earlier release wrote it."""
        document = json.loads(self.path.read_text())
        fields = ("chain_id", "genesis", "admin", "first_block", "contracts")
        old_document = {field: document[field] for field in fields} | {"transactions": []}
        self.path.write_text(json.dumps(old_document))

    def inspect(self, addresses):
        """Return the state of the set with these addresses."""
        contracts = find_contracts(self.chain.node, addresses["MetaScheduler"])
        return Inspector(self.chain.node, contracts, report=self.reported.append).inspect()

    def check(self, addresses, *, other_transactions=0):
        """Assert that the set is complete, at its addresses, and that no transaction was repeated.

        ``other_transactions`` is the number of ADMIN's transactions that are not steps.
        """
        state = self.inspect(addresses)
        assert check_contracts(state, expected=addresses) == ()
        assert state.addresses == addresses
        assert addresses == planned_addresses()
        assert self.next_nonce() == STEP_COUNT + other_transactions
        assert json.loads(self.path.read_text())["contracts"] == addresses
