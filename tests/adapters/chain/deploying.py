# SPDX-License-Identifier: Apache-2.0
"""Deployments that are interrupted at any step."""

from __future__ import annotations

import json
import time

import pytest
from tests.devnet import COIN, SUPPLY, Devnet, wallet

from gridstead.adapters.chain.contracts import find_contracts
from gridstead.adapters.chain.node import Node
from gridstead.adapters.contracts.blueprint import address_of
from gridstead.adapters.contracts.deploy import Deployment
from gridstead.adapters.contracts.deployment_file import read
from gridstead.adapters.contracts.inspection import Inspector
from gridstead.domain.contracts.checks import check_contracts

ADMIN, OPERATOR = wallet(66), wallet(67)
STEPS = 12
SENDING = "eth_sendRawTransaction"


class Crash(BaseException):
    """The process dies."""


class MortalNode(Node):
    """A node whose client dies at transaction number ``position``, before or after it is sent."""

    def __init__(self, url, position, *, sent):
        super().__init__(url)
        self.left, self.sent = position, sent

    def batch(self, requests):
        self.left -= [method for method, _ in requests].count(SENDING)
        dies = self.left <= 0 and any(method == SENDING for method, _ in requests)
        if dies and not self.sent:
            raise Crash
        answers = super().batch(requests)
        if dies:
            raise Crash
        return answers


class MiningNode(Node):
    """A node that mines a block whenever a receipt is requested."""

    def batch(self, requests):
        if any(method == "eth_getTransactionReceipt" for method, _ in requests):
            super().batch([("evm_mine", [])])
        return super().batch(requests)


class UnsealedDevnet(Devnet):
    """A chain with the contracts of a deployment that was interrupted before its last step."""

    def _deploy(self, directory):
        path, node = directory / "deployment.json", MortalNode(self.anvil.url, STEPS, sent=False)
        with pytest.raises(Crash):
            Deployment(node, self.admin, path, report=lambda _: None).run(
                operator=self.operator.address, supply=SUPPLY
            )
        node.close()
        return read(path).contracts


class DeploymentSite:
    """A chain and the path of a deployment file."""

    def __init__(self, chain, path):
        self.chain, self.path, self.reported, self.nodes = chain, path, [], []

    def node(self, kind, *arguments, **options):
        self.nodes.append(kind(self.chain.anvil.url, *arguments, **options))
        return self.nodes[-1]

    def deployment(self, node=None, admin=ADMIN, **options):
        return Deployment(
            node or self.chain.node, admin, self.path, report=self.reported.append, **options
        )

    def run(self, node=None, **options):
        return self.deployment(node, **options).run(operator=OPERATOR.address, supply=COIN)

    def plan_steps(self):
        return self.deployment().plan_steps(operator=OPERATOR.address, supply=COIN)

    def crash(self, position, *, sent):
        """Run until transaction number ``position`` kills the run."""
        with pytest.raises(Crash):
            self.run(self.node(MortalNode, position, sent=sent))
        self.settle()

    def settle(self):
        """Wait until a node that mines at once has mined all pending transactions."""
        end = time.monotonic() + 60
        while self.chain.anvil.rpc("anvil_getAutomine") and self.used() < self.used("pending"):
            assert time.monotonic() < end

    def used(self, block="latest"):
        return int(self.chain.anvil.rpc("eth_getTransactionCount", ADMIN.address, block), 16)

    def created(self):
        """Return the addresses of all contracts that the administrator ever created, in order."""
        addresses = [address_of(ADMIN.address, nonce) for nonce in range(self.used())]
        return list(filter(self._has_code, addresses))

    def _has_code(self, address):
        return self.chain.anvil.rpc("eth_getCode", address, "latest") != "0x"

    def check(self, addresses, *, others=0):
        """Assert that the set is complete, and that no contract and no transaction was repeated."""
        contracts = find_contracts(self.chain.node, addresses["MetaScheduler"])
        state = Inspector(self.chain.node, contracts, report=self.reported.append).inspect()
        assert check_contracts(state, expected=addresses) == ()
        assert state.addresses == addresses
        assert sorted(self.created()) == sorted(addresses.values())
        assert self.used() == STEPS + others
        assert json.loads(self.path.read_text())["contracts"] == addresses
