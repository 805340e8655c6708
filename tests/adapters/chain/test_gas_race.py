# SPDX-License-Identifier: Apache-2.0
"""A customer's transaction succeeds although others act after the estimate of its gas.

Clients of DeepSquare send a transaction with exactly the gas that the node estimated. A transaction
that runs out of gas is mined without effect, so a job would not be cancelled and would be billed.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.racing import RacingNode
from tests.devnet import COIN

from gridstead.adapters.chain.customer import Customer
from gridstead.domain.jobs.lifecycle import JobState


class ExactCustomer:
    """A client that adds nothing to the node's estimate, as DeepSquare's SDK."""

    def __init__(self, chain):
        self._chain = chain
        self._grid = chain.contracts.meta_scheduler
        self._address = chain.customer.address
        chain.anvil.rpc("anvil_impersonateAccount", self._address)

    def estimate(self, function, *arguments):
        """Return a transaction with the node's estimate as its gas limit; it is not sent."""
        data = self._grid.data(function, *arguments)
        transaction = {"from": self._address, "to": self._grid.address, "data": data}
        return transaction | {"gas": self._chain.anvil.rpc("eth_estimateGas", transaction)}

    def send(self, transaction):
        """Send a transaction and return whether it succeeded."""
        tx_hash = self._chain.anvil.rpc("eth_sendTransaction", transaction)
        self._chain.anvil.mine()  # returns after anvil has mined all earlier transactions
        receipt = self._chain.anvil.rpc("eth_getTransactionReceipt", tx_hash)
        return receipt["status"] == "0x1"


def advance(grid, number, state):
    """Let the matcher and the provider act until the job has a state."""
    # steps[n] moves a job out of state number n.
    steps = [grid.match, lambda _: grid.claim(), lambda job: grid.run(job, 0)]
    first_step = grid.job(number).state
    for step in steps[first_step : JobState(state)]:
        step(number)


@pytest.mark.parametrize(
    ("first_state", "later_state"),
    [
        (JobState.PENDING, JobState.META_SCHEDULED),
        (JobState.PENDING, JobState.SCHEDULED),
        (JobState.PENDING, JobState.RUNNING),
        (JobState.SCHEDULED, JobState.RUNNING),
    ],
)
def test_cancellation_with_the_estimated_gas_succeeds_after_the_job_advanced(
    chain, first_state, later_state
):
    grid, customer = join_real_grid(chain), ExactCustomer(chain)
    number = grid.request("script-1")
    advance(grid, number, first_state)

    transaction = customer.estimate("cancelJob", number.to_bytes(32))
    advance(grid, number, later_state)

    assert grid.job(number).state is later_state
    assert customer.send(transaction)
    assert grid.job(number).cancel_requested


def test_top_up_with_the_estimated_gas_succeeds_after_the_queue_was_emptied(chain):
    grid, customer = join_real_grid(chain), ExactCustomer(chain)
    number = grid.request("script-1")
    advance(grid, number, JobState.RUNNING)
    # The entries of a queue share slots, so every fourth entry is in a new slot.
    for _ in range(5):
        grid.top_up(number, COIN)
        transaction = customer.estimate("topUpJob", number.to_bytes(32), COIN)
        grid.claim_top_up()

        assert customer.send(transaction)
        grid.claim_top_up()


def test_delegated_top_up_with_the_estimated_gas_succeeds_after_the_queue_was_emptied(chain):
    grid, customer = join_real_grid(chain), ExactCustomer(chain)
    number = grid.request("script-1", escrow=101 * COIN, delegate=True)
    advance(grid, number, JobState.RUNNING)
    grid.pass_time(30 * 86_400)
    grid.top_up(number, COIN)

    transaction = customer.estimate("topUpJobDelegate", number.to_bytes(32))
    grid.claim_top_up()

    assert customer.send(transaction)


def test_requests_with_the_gas_estimated_before_the_first_succeed(chain):
    grid, customer = join_real_grid(chain), ExactCustomer(chain)
    grid.request("script-1")
    definition = (0, 100, 1, 1, "s" * 22, 4, [], [])
    transaction = customer.estimate("requestNewJob", definition, 200 * COIN, bytes(32), True)
    # Four job numbers of a customer share a slot.
    for _ in range(4):
        assert customer.send(transaction)


@on_all
@pytest.mark.parametrize("later_state", [JobState.META_SCHEDULED, JobState.RUNNING])
def test_our_client_cancels_a_job_that_advances_after_the_estimate(chain, later_state):
    grid = join_real_grid(chain)
    number = grid.request("script-1")
    advance_job = partial(advance, grid, number, later_state)

    with closing(RacingNode(chain.anvil.url, advance_job)) as node:
        Customer(node, chain.contracts, chain.customer).cancel_job(number)

    assert grid.job(number).cancel_requested


@on_all
def test_our_client_tops_up_a_job_whose_queue_is_emptied_after_the_estimate(chain):
    grid = join_real_grid(chain)
    number = grid.request("script-1")
    advance(grid, number, JobState.RUNNING)
    grid.top_up(number, COIN)

    with closing(RacingNode(chain.anvil.url, grid.claim_top_up)) as node:
        Customer(node, chain.contracts, chain.customer).top_up(number, COIN)

    assert grid.job(number).escrow == 202 * COIN
