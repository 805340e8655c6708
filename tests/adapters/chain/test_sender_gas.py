# SPDX-License-Identifier: Apache-2.0
"""Tests of the gas limits of the sender's transactions, and of blocks with a low gas limit."""

from __future__ import annotations

import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.sender_setup import claim_jobs, request_jobs, settlement

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import MAX_ERROR_BYTES, ClaimJobs, Refuse
from gridstead.domain.transactions.outbox import SendState


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


@pytest.mark.parametrize("count", [1, 20])
def test_batches_stay_within_their_gas_limit(grid, paused_chain, wallet_sender, open_sender, count):
    """The gas limit from encode.py must suffice. For a large batch, it must not be too high.

    A refusal uses more gas if its customer requested to cancel the job, and most if the refund goes
    to an account without credits.
    """
    operator = open_sender(paused_chain, paused_chain.operator)
    numbers = request_jobs(grid, 2 * count)
    running_numbers, refused_numbers = numbers[:count], numbers[count:]
    operator.put_match(grid, *running_numbers)
    operator.finish()
    operator.put_match(grid, *refused_numbers)
    operator.finish()
    wallet_sender.outbox.put("claim", ClaimJobs(limit=2 * count))
    wallet_sender.finish()
    paused_chain.anvil.rpc("evm_setAutomine", True)
    for number in refused_numbers:
        grid.cancel(number)
    customer = paused_chain.as_customer
    customer.transfer(paused_chain.admin.address, customer.balance())
    paused_chain.anvil.rpc("evm_setAutomine", False)
    wallet_sender.put_running(grid, *running_numbers)
    for number in refused_numbers:
        wallet_sender.outbox.put(f"refuse:{number}", Refuse(job_key=grid.job(number).job_key))
    wallet_sender.finish()
    paused_chain.anvil.rpc("evm_increaseTime", 1000)
    for index, number in enumerate(running_numbers):
        error = "e" * MAX_ERROR_BYTES if index % 2 else ""
        call = settlement(grid.job(number), JobState.FAILED, seconds=77, exit_code=3, error=error)
        wallet_sender.outbox.put(f"end:{number}", call)
    wallet_sender.finish()

    assert set(operator.states()) == {SendState.FINAL}
    assert set(wallet_sender.states()) == {SendState.FINAL}
    for tx_hash in operator.hashes() + wallet_sender.hashes():
        used_share = share_of_gas_limit(paused_chain, tx_hash)
        assert used_share < 0.85
        if count > 1:
            assert used_share > 0.4


def share_of_gas_limit(chain, tx_hash):
    """Return the gas that a mined transaction has used, as a fraction of its gas limit."""
    used_gas = chain.anvil.rpc("eth_getTransactionReceipt", tx_hash)["gasUsed"]
    gas_limit = chain.anvil.rpc("eth_getTransactionByHash", tx_hash)["gas"]
    return int(used_gas, 16) / int(gas_limit, 16)


@pytest.fixture
def small_blocks(paused_chain):
    """Limit blocks to 400,000 gas during the test."""
    usual_limit = paused_chain.anvil.rpc("eth_getBlockByNumber", "latest", False)["gasLimit"]
    paused_chain.anvil.rpc("evm_setBlockGasLimit", hex(400_000))
    paused_chain.anvil.mine()
    yield
    paused_chain.anvil.rpc("evm_setBlockGasLimit", usual_limit)
    paused_chain.anvil.mine()


def test_batches_use_at_most_half_the_gas_of_a_block(grid, paused_chain, wallet_sender, request):
    numbers = claim_jobs(grid, 6)
    request.getfixturevalue("small_blocks")  # the claim above needs a larger block
    wallet_sender.put_running(grid, *numbers)
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL] * 6
    assert len(wallet_sender.hashes()) == 2  # six calls need more than half the gas of a block


def test_call_above_the_block_gas_limit_is_rejected_and_other_calls_are_sent(
    grid, paused_chain, wallet_sender, request
):
    first, second = claim_jobs(grid, 2)
    request.getfixturevalue("small_blocks")  # the claim above needs a larger block
    # The gas limit of a start is 130,000, and that of a settlement with a long error 264,400.
    paused_chain.anvil.rpc("evm_setBlockGasLimit", hex(250_000))
    paused_chain.anvil.mine()
    large_call = settlement(grid.job(first), JobState.FAILED, error="x" * MAX_ERROR_BYTES)
    wallet_sender.outbox.put("large", large_call)
    wallet_sender.put_running(grid, second)
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.REJECTED, SendState.FINAL]
    assert wallet_sender.reasons()[0].startswith("the node refused the transaction:")
    assert "gas" in wallet_sender.reasons()[0].lower()
