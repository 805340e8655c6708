# SPDX-License-Identifier: Apache-2.0
"""Tests that the sender neither loses nor repeats a call.

The tests cover crashes, reorgs, and other programs that use the wallet of the sender.
"""

from __future__ import annotations

import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.sender_setup import WalletSender, claim_jobs, job_states

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.outbox import SendState
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.errors import ConfigError


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid. Blocks are mined only on request."""
    real_grid = join_real_grid(chain)
    chain.anvil.rpc("evm_setAutomine", False)
    return real_grid


@pytest.fixture
def wallet_sender(grid, tmp_path):
    """The program that sends the provider's transactions."""
    sender = WalletSender(grid.devnet, grid.devnet.provider, tmp_path)
    yield sender
    sender.close()


@pytest.fixture
def twin(grid, tmp_path):
    """Another program with the same wallet and a separate store."""
    (tmp_path / "twin").mkdir()
    sender = WalletSender(grid.devnet, grid.devnet.provider, tmp_path / "twin")
    yield sender
    sender.close()


def known_to_node(wallet_sender):
    """Return, for each stored transaction, whether the node has the transaction."""
    results = []
    for tx_hash in wallet_sender.hashes():
        transaction = wallet_sender.chain.anvil.rpc("eth_getTransactionByHash", tx_hash)
        results.append(transaction is not None)
    return results


def test_transaction_stored_before_a_crash_is_sent_by_the_next_process(grid, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)

    wallet_sender.crash_at = "transaction_stored"
    wallet_sender.tick()
    assert (known_to_node(wallet_sender), wallet_sender.states()) == ([False], [SendState.SENT])
    wallet_sender.tick()

    assert known_to_node(wallet_sender) == [True]
    wallet_sender.finish()
    assert (len(wallet_sender.hashes()), wallet_sender.states()) == (1, [SendState.FINAL])
    assert job_states(grid, [number]) == {JobState.RUNNING}


def test_all_transactions_stored_before_a_crash_are_sent_by_the_next_process(grid, wallet_sender):
    numbers = claim_jobs(grid, 30)
    wallet_sender.policy = DispatchPolicy(confirmations=2, max_batch_calls=1)
    wallet_sender.restart()
    wallet_sender.put_running(grid, *numbers)

    wallet_sender.crash_at = "transaction_stored"
    wallet_sender.tick()
    assert known_to_node(wallet_sender) == [False] * 30
    wallet_sender.tick()
    assert known_to_node(wallet_sender) == [True] * 30
    wallet_sender.finish()

    assert len(wallet_sender.hashes()) == 30
    assert job_states(grid, numbers) == {JobState.RUNNING}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["the same process", "another process"])
def test_transaction_dropped_in_a_reorg_is_sent_again(grid, wallet_sender, is_restarted):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    wallet_sender.tick_and_mine(2)
    assert wallet_sender.states() == [SendState.MINED]

    grid.reorg(2)
    grid.devnet.anvil.rpc("anvil_dropAllTransactions")
    assert known_to_node(wallet_sender) == [False]
    if is_restarted:
        wallet_sender.restart()
    wallet_sender.tick()

    assert known_to_node(wallet_sender) == [True]
    wallet_sender.finish()
    assert (len(wallet_sender.hashes()), wallet_sender.states()) == (1, [SendState.FINAL])
    assert job_states(grid, [number]) == {JobState.RUNNING}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["the same process", "another process"])
def test_call_is_sent_again_if_another_program_used_its_nonce(
    grid, wallet_sender, twin, is_restarted
):
    first, second = claim_jobs(grid, 2)
    wallet_sender.put_running(grid, first)
    wallet_sender.tick()
    grid.devnet.anvil.rpc("anvil_dropAllTransactions")
    twin.put_running(grid, second)
    twin.finish()
    assert twin.states() == [SendState.FINAL]

    if is_restarted:
        wallet_sender.restart()
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    # The sender sent the call again, in a second transaction with the next nonce.
    assert known_to_node(wallet_sender) == [False, True]
    assert job_states(grid, [first, second]) == {JobState.RUNNING}


def test_two_programs_with_one_wallet_lose_no_call(grid, wallet_sender, twin):
    numbers = claim_jobs(grid, 8)
    for index, number in enumerate(numbers):
        sender = wallet_sender if index % 2 == 0 else twin
        sender.put_running(grid, number)
        wallet_sender.tick()
        twin.tick()
        grid.devnet.anvil.mine()
        wallet_sender.clock.advance(11)  # longer than ``resend_after_s``
        twin.clock.advance(11)
    wallet_sender.finish()
    twin.finish()

    assert {*wallet_sender.states(), *twin.states()} == {SendState.FINAL}
    assert job_states(grid, numbers) == {JobState.RUNNING}


def test_replacement_stored_before_a_crash_is_sent_after_the_crash(grid, wallet_sender):
    (number,) = claim_jobs(grid, 1)
    wallet_sender.put_running(grid, number)
    wallet_sender.tick()
    for _ in range(2):
        # The first transaction pays too little for the next block, so the sender replaces it.
        grid.devnet.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(500 * 10**9))
        grid.devnet.anvil.mine()
        wallet_sender.clock.advance(40)  # two steps are longer than ``replace_after_s``
        wallet_sender.crash_at = "transaction_stored"
        wallet_sender.tick()
    wallet_sender.crash_at = ""
    assert len(wallet_sender.hashes()) == 2
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert job_states(grid, [number]) == {JobState.RUNNING}


def test_wallet_without_coins_continues_after_funding(grid, wallet_sender):
    """The stored transaction is sent after the funding, and no other transaction is signed."""
    numbers = claim_jobs(grid, 3)
    wallet_sender.put_running(grid, *numbers)
    grid.devnet.anvil.rpc("anvil_setBalance", wallet_sender.wallet.address, "0x1")
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot pay"):
            wallet_sender.tick()
    assert len(wallet_sender.hashes()) == 1

    grid.devnet.anvil.fund(wallet_sender.wallet.address)
    wallet_sender.finish()

    assert len(wallet_sender.hashes()) == 1
    assert job_states(grid, numbers) == {JobState.RUNNING}
