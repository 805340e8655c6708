# SPDX-License-Identifier: Apache-2.0
"""Tests of the sender on a real chain: batches, crashes between two steps, and reorgs."""

from __future__ import annotations

import pytest
from tests.adapters.chain.grids import RealGrid, join_real_grid
from tests.adapters.chain.sender_setup import (
    BOUNDARIES,
    claim_jobs,
    job_states,
    request_jobs,
    settlement,
)
from tests.devnet import Anvil, Devnet, wallet

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
)
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid."""
    return join_real_grid(chain)


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
