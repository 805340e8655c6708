# SPDX-License-Identifier: Apache-2.0
"""Tests of the sender on a real chain: batches, crashes between two steps, and reorgs."""

from __future__ import annotations

import pytest
from tests.adapters.chain.grids import RealGrid, join_real_grid
from tests.adapters.chain.sender_setup import (
    BOUNDARIES,
    WalletSender,
    claim_jobs,
    job_states,
    request_jobs,
    settlement,
)
from tests.devnet import Anvil, Devnet, wallet

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import (
    MAX_ERROR_BYTES,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Refuse,
)
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def paused_chain(chain):
    """Return the chain. It mines a block only when the test requests one."""
    chain.anvil.rpc("evm_setAutomine", False)
    return chain


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


@pytest.fixture
def open_sender(tmp_path):
    """Return a function that opens a wallet's sender."""
    opened_senders = []

    def create(chain, wallet, **policy):
        opened_senders.append(WalletSender(chain, wallet, tmp_path, **policy))
        return opened_senders[-1]

    yield create
    for sender in opened_senders:
        sender.close()


@pytest.fixture
def wallet_sender(grid, paused_chain, open_sender):
    """Return the sender of the provider's wallet."""
    return open_sender(paused_chain, paused_chain.provider)


def test_call_is_final_after_its_confirmations(grid, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)

    states = []
    for _ in range(5):
        wallet_sender.tick_and_mine()
        states += wallet_sender.states()

    assert states == [
        SendState.SENT,
        SendState.MINED,
        SendState.MINED,
        SendState.FINAL,
        SendState.FINAL,
    ]
    assert grid.job(number).state is JobState.RUNNING
    assert len(wallet_sender.hashes()) == 1


def test_jobs_take_one_transaction_per_kind_of_call(grid, paused_chain, wallet_sender, open_sender):
    numbers = request_jobs(grid, 40)
    operator = open_sender(paused_chain, paused_chain.operator)
    operator.put_match(grid, *numbers)
    operator.finish()
    wallet_sender.outbox.put("claim", ClaimJobs(limit=50))
    wallet_sender.finish()
    for number in numbers:
        wallet_sender.put_running(grid, number)
        wallet_sender.put_settlement(grid, number)
    wallet_sender.finish()

    assert job_states(grid, numbers) == {JobState.FINISHED}
    assert set(operator.states()) == {SendState.FINAL}
    assert set(wallet_sender.states()) == {SendState.FINAL}
    assert len(operator.hashes()) == 1
    assert len(wallet_sender.hashes()) == 3  # the claim, the starts and the settlements


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


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_each_call_is_sent_once_if_the_sender_crashes(grid, wallet_sender, boundary):
    numbers = claim_jobs(grid, 3)
    for number in numbers:
        wallet_sender.put_running(grid, number)
        wallet_sender.put_settlement(grid, number)

    for _ in range(6):
        wallet_sender.crash_at = boundary
        wallet_sender.tick_and_mine()
    wallet_sender.crash_at = ""
    wallet_sender.finish()

    assert set(wallet_sender.states()) == {SendState.FINAL}
    assert job_states(grid, numbers) == {JobState.FINISHED}
    assert len(wallet_sender.hashes()) == 2  # the starts and the settlements


def test_skipped_call_of_a_batch_is_rejected_with_the_contracts_error(grid, wallet_sender):
    started_number, never_started_number = claim_jobs(grid, 2)
    wallet_sender.put_running(grid, started_number)
    wallet_sender.put_settlement(grid, never_started_number)
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL, SendState.REJECTED]
    # The arguments are the states SCHEDULED (2) and FINISHED (5).
    assert wallet_sender.reasons()[1] == "InvalidTransition(2, 5)"


def test_call_that_would_revert_is_rejected_without_a_transaction(grid, paused_chain, open_sender):
    outsider = wallet(77)
    paused_chain.anvil.fund(outsider.address)
    wallet_sender = open_sender(paused_chain, outsider)
    wallet_sender.outbox.put("claim", ClaimJobs(limit=1))
    wallet_sender.tick()

    assert wallet_sender.states() == [SendState.REJECTED]
    assert "ProviderNotJoined" in wallet_sender.reasons()[0]
    assert wallet_sender.hashes() == []


def test_claims_of_empty_queues_succeed(grid, wallet_sender):
    wallet_sender.outbox.put("cancelling", ClaimCancelling())
    wallet_sender.outbox.put("top_up", ClaimTopUp())
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL, SendState.FINAL]


def test_wallet_without_coins_is_a_config_error(grid, paused_chain, open_sender):
    poor = wallet(78)
    wallet_sender = open_sender(paused_chain, poor)
    wallet_sender.put_match(grid, *request_jobs(grid, 1))

    with pytest.raises(ConfigError, match="cannot pay"):
        wallet_sender.tick()

    paused_chain.anvil.fund(poor.address)
    wallet_sender.finish()
    assert wallet_sender.states() == [SendState.REJECTED]
    assert "missing role" in wallet_sender.reasons()[0]


def test_dropped_transaction_is_sent_again(grid, paused_chain, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    wallet_sender.tick()
    paused_chain.anvil.rpc("anvil_dropAllTransactions")
    wallet_sender.clock.advance(11)  # longer than ``resend_after_s``
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert len(wallet_sender.hashes()) == 1


def test_stuck_transaction_is_replaced_with_higher_fees(grid, paused_chain, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    wallet_sender.tick()
    states = []
    for _ in range(4):
        paused_chain.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(50 * 10**9))
        paused_chain.anvil.mine()
        wallet_sender.clock.advance(23)  # two steps are longer than ``replace_after_s``
        wallet_sender.tick()
        states += wallet_sender.states()

    assert states == [SendState.SENT, SendState.SENT, SendState.MINED, SendState.MINED]
    assert len(wallet_sender.hashes()) >= 2
    assert grid.job(number).state is JobState.RUNNING


def test_transaction_lost_in_a_reorg_is_sent_again(grid, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    wallet_sender.tick_and_mine(2)
    assert wallet_sender.states() == [SendState.MINED]

    grid.reorg(2)
    assert grid.job(number).state is JobState.SCHEDULED
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert grid.job(number).state is JobState.RUNNING
    assert len(wallet_sender.hashes()) == 1


def test_calls_of_a_job_lost_in_a_reorg_are_rejected(grid, paused_chain, wallet_sender):
    paused_chain.anvil.mine()
    (kept_number,) = claim_jobs(grid, 1, "kept")
    (lost_number,) = claim_jobs(grid, 1, "lost")
    # The reorg must remove the three blocks with the request, the match and the claim of the lost
    # job, and the two blocks that are mined below.
    depth = grid.ledger.head().number - grid.job(lost_number).state_block + 3 + 2
    wallet_sender.put_running(grid, lost_number)
    wallet_sender.tick_and_mine()
    wallet_sender.put_running(grid, kept_number)
    wallet_sender.tick_and_mine()
    assert grid.job(lost_number).state is JobState.RUNNING

    grid.reorg(depth)
    assert grid.jobs(lost_number) == {}
    hash_of_lost_call = wallet_sender.hashes()[0]
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.REJECTED, SendState.FINAL]
    assert grid.job(kept_number).state is JobState.RUNNING
    assert paused_chain.anvil.rpc("eth_getTransactionReceipt", hash_of_lost_call) is None


def test_call_of_a_job_lost_in_a_reorg_is_not_sent_to_the_job_that_reuses_its_number(
    grid, paused_chain, wallet_sender
):
    paused_chain.anvil.mine()
    (number,) = claim_jobs(grid, 1, "old")
    paused_chain.anvil.mine(2)
    wallet_sender.put_running(grid, number)
    call = settlement(grid.job(number), JobState.FAILED, exit_code=9 << 8, error="old")
    wallet_sender.outbox.put("end", call)
    wallet_sender.tick_and_mine(2)
    assert grid.job(number).state is JobState.FAILED
    old_hashes = wallet_sender.hashes()

    grid.reorg(8)  # also removes the request of the job
    assert grid.jobs(number) == {}
    assert claim_jobs(grid, 1, "new") == [number]
    wallet_sender.restart()
    wallet_sender.finish()
    for _ in range(5):
        wallet_sender.tick_and_mine()

    assert wallet_sender.states() == [SendState.REJECTED, SendState.REJECTED]
    assert grid.job(number).state is JobState.SCHEDULED
    assert grid.job(number).last_error == ""
    assert_unknown(paused_chain, old_hashes)


def assert_unknown(chain, hashes):
    """Assert that the node has none of the transactions, neither pending nor mined."""
    for tx_hash in hashes:
        assert chain.anvil.rpc("eth_getTransactionByHash", tx_hash) is None


def test_call_of_an_old_chain_is_not_sent_to_a_new_chain(
    grid, paused_chain, wallet_sender, tmp_path
):
    """The chains have the same chain id and addresses.

    When the old chain ends, one call is in a mined transaction and one in a pending transaction.
    """
    numbers = claim_jobs(grid, 2, "old")
    wallet_sender.put_running(grid, numbers[1])
    wallet_sender.tick_and_mine(2)
    wallet_sender.put_running(grid, numbers[0])
    wallet_sender.tick()
    new_chain = Devnet(tmp_path)
    try:
        new_grid = RealGrid(new_chain)
        new_grid.register()
        new_grid.approve()
        assert claim_jobs(new_grid, 2, "new") == numbers
        assert new_chain.addresses == paused_chain.addresses
        wallet_sender.chain, wallet_sender.ledger = new_chain, new_grid.ledger
        wallet_sender.restart()
        wallet_sender.finish()

        assert wallet_sender.states() == [SendState.REJECTED, SendState.REJECTED]
        assert job_states(new_grid, numbers) == {JobState.SCHEDULED}
        assert_unknown(new_chain, wallet_sender.hashes())
    finally:
        new_chain.close()


def test_call_is_kept_while_the_chain_has_no_contracts(grid, paused_chain, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    empty_chain, url = Anvil(), paused_chain.node._provider.endpoint_uri
    try:
        paused_chain.node._provider.endpoint_uri = empty_chain.url
        with pytest.raises(ChainUnavailable, match="no contract"):
            wallet_sender.tick()
    finally:
        paused_chain.node._provider.endpoint_uri = url
        empty_chain.kill()

    wallet_sender.finish()
    assert wallet_sender.states() == [SendState.FINAL]


def test_call_is_kept_while_the_endpoint_is_unreachable(grid, paused_chain, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    url = paused_chain.node._provider.endpoint_uri
    paused_chain.node._provider.endpoint_uri = "http://127.0.0.1:9"
    with pytest.raises(ChainUnavailable):
        wallet_sender.tick()
    paused_chain.node._provider.endpoint_uri = url

    wallet_sender.finish()
    assert wallet_sender.states() == [SendState.FINAL]


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
