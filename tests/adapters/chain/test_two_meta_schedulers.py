# SPDX-License-Identifier: Apache-2.0
"""Two meta-schedulers of one grid, on a real chain. Each has a wallet with the role."""

from __future__ import annotations

import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.sender_setup import WalletSender, automining
from tests.devnet import wallet
from tests.fakes.store import MemoryCursor

from gridstead.adapters.chain.abi import artifact
from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.contracts.steps import role_id
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Rules
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.matching.standby import BLOCKS_PER_RANK

CONFIRMATIONS = 2
MAX_WASTE = 0.05
RULES = Rules(queue_allowance=1000)  # so that the provider has room for all jobs


class Instance:
    """A meta-scheduler with a sender and a store of its own."""

    def __init__(self, chain, own_wallet, folder):
        self.sender = WalletSender(chain, own_wallet, folder, confirmations=CONFIRMATIONS)
        ledger = ChainLedger(chain.node, chain.contracts, with_transfers=True)
        self.service = MetaScheduler(
            ledger,
            Follower(ledger, MemoryCursor(), confirmations=CONFIRMATIONS),
            self.sender.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=SkippedMatches(self.sender.clock),
            rules=RULES,
            wallet=own_wallet.address,
        )

    @property
    def address(self):
        return self.sender.wallet.address

    def tick(self):
        self.service.tick()
        self.sender.tick()
        self.sender.clock.advance(1)


class TwoInstances:
    """A chain with two meta-schedulers. The first is the one with the lower address."""

    def __init__(self, chain, folder):
        self.chain = chain
        self.grid = join_real_grid(chain)
        second_wallet = wallet(5)
        chain.anvil.fund(second_wallet.address)
        admin = Customer(chain.node, chain.contracts, chain.admin)
        contract = chain.contracts.meta_scheduler
        role = role_id("METASCHEDULER_ROLE")
        data = contract.data("grantRole", role, second_wallet.address)
        admin._direct.transact(contract.address, data, name="grantRole")
        wallets = sorted((chain.operator, second_wallet), key=lambda each: each.address)
        self.first, self.second = (Instance(chain, each, folder) for each in wallets)
        self.first_block = self.grid.ledger.head().number + 1
        chain.anvil.rpc("evm_setAutomine", False)

    def request(self, count):
        with automining(self.chain.anvil):
            return [self.grid.request(f"script-{index}") for index in range(count)]

    def claim(self):
        """Claim all matched jobs, so that no match expires."""
        with automining(self.chain.anvil):
            self.grid.claim()

    def run(self, blocks, *instances):
        for _ in range(blocks):
            for instance in instances:
                instance.tick()
            self.chain.anvil.mine()

    def states(self, numbers):
        return {job.state for job in self.grid.jobs(*numbers).values()}

    def gas(self):
        """Return the gas of all transactions with matches, and the part of the skipped matches."""
        used_gas = wasted_gas = 0
        topics = {
            contract: artifact(contract).events[name].topic
            for contract, name in (
                ("MetaScheduler", "BatchElementSkipped"),
                ("JobRepository", "JobTransitionEvent"),
            )
        }
        for receipt in self.receipts():
            logged_topics = [entry["topics"][0] for entry in receipt["logs"]]
            skipped = logged_topics.count(topics["MetaScheduler"])
            matched = logged_topics.count(topics["JobRepository"])
            gas = int(receipt["gasUsed"], 16)
            used_gas += gas
            wasted_gas += gas if not matched else gas * skipped // (skipped + matched)
        return used_gas, wasted_gas

    def receipts(self):
        """Yield the receipts of the transactions of both meta-schedulers."""
        addresses = {self.first.address, self.second.address}
        for number in range(self.first_block, self.grid.ledger.head().number + 1):
            block = self.chain.node.ask("eth_getBlockByNumber", hex(number), True)
            for transaction in block["transactions"]:
                if transaction["from"].lower() in addresses:
                    yield self.chain.node.ask("eth_getTransactionReceipt", transaction["hash"])

    def close(self):
        self.first.sender.close()
        self.second.sender.close()


@pytest.fixture
def instances(chain, tmp_path):
    new_instances = TwoInstances(chain, tmp_path)
    yield new_instances
    new_instances.close()


@pytest.mark.parametrize("order", ["first", "second"])
def test_two_instances_waste_at_most_a_twentieth_of_the_gas(instances, order):
    """200 jobs in waves, from a start without any earlier match. Each instance ticks first once."""
    pair = (instances.first, instances.second)
    if order == "second":
        pair = pair[::-1]
    numbers = []
    for _ in range(5):
        numbers += instances.request(40)
        instances.run(BLOCKS_PER_RANK + 2, *pair)
        instances.claim()

    assert instances.states(numbers) == {JobState.SCHEDULED}
    used_gas, wasted_gas = instances.gas()
    assert used_gas > 0
    assert wasted_gas <= MAX_WASTE * used_gas, f"{wasted_gas} of {used_gas}"


def test_second_instance_matches_if_the_first_is_stopped(instances):
    first_numbers = instances.request(3)
    instances.run(BLOCKS_PER_RANK + 2, instances.second)
    assert instances.states(first_numbers) == {JobState.META_SCHEDULED}

    # It does not wait again.
    later_numbers = instances.request(3)
    instances.run(1, instances.second)

    assert instances.states(later_numbers) == {JobState.META_SCHEDULED}


def test_second_instance_waits_again_after_the_first_has_returned(instances):
    instances.request(1)
    instances.run(BLOCKS_PER_RANK + 2, instances.second)
    numbers = instances.request(1)
    instances.run(1, instances.first)  # the second one is slow
    instances.run(1, instances.second, instances.first)
    assert instances.states(numbers) == {JobState.META_SCHEDULED}

    numbers = instances.request(1)
    instances.run(1, instances.second)

    assert instances.states(numbers) == {JobState.PENDING}
