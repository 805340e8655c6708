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
from gridstead.adapters.contracts.blueprint import address_of
from gridstead.adapters.contracts.deploy import Deployment
from gridstead.adapters.contracts.deployment_file import read
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.checks import check_contracts

ADMIN, OPERATOR = wallet(66), wallet(67)
STEP_COUNT = 12  # each step is one transaction
SEND_METHOD = "eth_sendRawTransaction"


def has_method(requests, method):
    """Return whether one of the JSON-RPC requests calls this method."""
    return any(request_method == method for request_method, _ in requests)


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
    """A node that mines a block whenever a receipt is requested."""

    def batch(self, requests):
        if has_method(requests, "eth_getTransactionReceipt"):
            super().batch([("evm_mine", [])])
        return super().batch(requests)


class UnsealedDevnet(Devnet):
    """A chain with the contracts of a deployment that was interrupted before its last step."""

    def _deploy(self, directory):
        path = directory / "deployment.json"
        node = CrashingNode(self.anvil.url, STEP_COUNT, sent=False)
        deployment = Deployment(node, self.admin, path, report=lambda _: None)
        with pytest.raises(Crash):
            deployment.run(operator=self.operator.address, supply=SUPPLY)
        node.close()
        return read(path).contracts


class DeploymentSite:
    """A chain and the path of a deployment file; runs deployments and checks their results."""

    def __init__(self, chain, path):
        self.chain, self.path = chain, path
        self.reported, self.nodes = [], []

    def node(self, node_class, *arguments, **options):
        """Return a new node of this class, which the fixture closes."""
        self.nodes.append(node_class(self.chain.anvil.url, *arguments, **options))
        return self.nodes[-1]

    def deployment(self, node=None, admin=ADMIN, **options):
        return Deployment(
            node or self.chain.node, admin, self.path, report=self.reported.append, **options
        )

    def run(self, node=None, **options):
        """Deploy the contracts, and return their addresses by contract."""
        return self.deployment(node, **options).run(operator=OPERATOR.address, supply=COIN)

    def plan_steps(self):
        return self.deployment().plan_steps(operator=OPERATOR.address, supply=COIN)

    def crash(self, position, *, sent):
        """Deploy until the client dies before or after it sends transaction ``position``."""
        with pytest.raises(Crash):
            self.run(self.node(CrashingNode, position, sent=sent))
        self.wait_for_mining()

    def leave_pending(self, position):
        """Crash after each transaction up to number ``position``. Leave the last one pending."""
        for _ in range(position - 1):
            self.crash(1, sent=True)
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

    def created_contracts(self):
        """Return the addresses of all contracts that ADMIN has created, oldest first."""
        addresses = [address_of(ADMIN.address, nonce) for nonce in range(self.next_nonce())]
        return list(filter(self._has_code, addresses))

    def _has_code(self, address):
        return self.chain.anvil.rpc("eth_getCode", address, "latest") != "0x"

    def count_reports(self, start):
        """Return how many reported lines start with this text."""
        return sum(line.startswith(start) for line in self.reported)

    def drop_intents(self):
        """Remove the recorded transactions from the file. Earlier releases did not record them."""
        document = json.loads(self.path.read_text())
        fields = ("chain_id", "genesis", "admin", "contracts")
        self.path.write_text(json.dumps({field: document[field] for field in fields}))

    def inspect(self, addresses):
        """Return the state of the set with these addresses."""
        contracts = find_contracts(self.chain.node, addresses["MetaScheduler"])
        return Inspector(self.chain.node, contracts, report=self.reported.append).inspect()

    def check(self, addresses, *, other_transactions=0):
        """Assert that the set is complete, and that no contract and no transaction was repeated.

        ``other_transactions`` is the number of ADMIN's transactions that are not steps.
        """
        state = self.inspect(addresses)
        assert check_contracts(state, expected=addresses) == ()
        assert state.addresses == addresses
        assert sorted(self.created_contracts()) == sorted(addresses.values())
        assert self.next_nonce() == STEP_COUNT + other_transactions
        assert json.loads(self.path.read_text())["contracts"] == addresses
