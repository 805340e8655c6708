# SPDX-License-Identifier: Apache-2.0
"""What crashes, reorgs and other programs do to a wallet on a real chain: no call is lost, none is
made twice.
"""

from __future__ import annotations

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.sender_setup import WalletSender, claimed, job

from gridstead.domain.calls import SetRunning
from gridstead.domain.dispatch import DispatchPolicy
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import SendState
from gridstead.errors import ConfigError


@pytest.fixture
def grid(chain):
    made = RealGrid(chain)
    made.register()
    made.approve()
    chain.anvil.rpc("evm_setAutomine", False)
    return made


@pytest.fixture
def wallet_sender(grid, tmp_path):
    """The provider's."""
    opened = WalletSender(grid.devnet, grid.devnet.provider, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def twin(grid, tmp_path):
    """Another program with the same wallet and a store of its own."""
    (tmp_path / "twin").mkdir()
    opened = WalletSender(grid.devnet, grid.devnet.provider, tmp_path / "twin")
    yield opened
    opened.close()


def put_running(wallet_sender, grid, *numbers):
    for number in numbers:
        call = SetRunning(
            job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp
        )
        wallet_sender.outbox.put(f"run:{number}", call)


def known(wallet_sender):
    """Return which of the stored transactions the node knows."""
    asked = wallet_sender.chain.anvil.rpc
    return [asked("eth_getTransactionByHash", one) is not None for one in wallet_sender.raws()]


def states(grid, numbers):
    return {one.state for one in grid.ledger.jobs(numbers, at_block=grid.ledger.head()).values()}


def test_transaction_that_was_stored_and_never_sent_is_sent_by_the_next_process(
    grid, wallet_sender
):
    (number,) = claimed(grid, 1)
    put_running(wallet_sender, grid, number)

    wallet_sender.crash_at = "transaction_stored"
    wallet_sender.tick()
    assert (known(wallet_sender), wallet_sender.states()) == ([False], [SendState.SENT])
    wallet_sender.tick()

    assert known(wallet_sender) == [True]
    wallet_sender.finish()
    assert (len(wallet_sender.raws()), wallet_sender.states()) == (1, [SendState.FINAL])
    assert states(grid, [number]) == {JobState.RUNNING}


def test_transactions_that_were_stored_together_are_sent_together_by_the_next_process(
    grid, wallet_sender
):
    numbers = claimed(grid, 30)
    wallet_sender.policy = DispatchPolicy(confirmations=2, batch=1)
    wallet_sender.restart()
    put_running(wallet_sender, grid, *numbers)

    wallet_sender.crash_at = "transaction_stored"
    wallet_sender.tick()
    assert known(wallet_sender) == [False] * 30
    wallet_sender.tick()
    assert known(wallet_sender) == [True] * 30
    wallet_sender.finish()

    assert len(wallet_sender.raws()) == 30
    assert states(grid, numbers) == {JobState.RUNNING}


@pytest.mark.parametrize("restarts", [False, True], ids=["the same process", "another process"])
def test_transaction_that_the_node_forgot_in_a_reorg_is_sent_again_as_it_was(
    grid, wallet_sender, restarts
):
    (number,) = claimed(grid, 1)
    put_running(wallet_sender, grid, number)
    wallet_sender.tick_and_mine(2)
    assert wallet_sender.states() == [SendState.MINED]

    grid.reorg(2)
    grid.devnet.anvil.rpc("anvil_dropAllTransactions")
    assert known(wallet_sender) == [False]
    if restarts:
        wallet_sender.restart()
    wallet_sender.tick()

    assert known(wallet_sender) == [True]
    wallet_sender.finish()
    assert (len(wallet_sender.raws()), wallet_sender.states()) == (1, [SendState.FINAL])
    assert states(grid, [number]) == {JobState.RUNNING}


@pytest.mark.parametrize("restarts", [False, True], ids=["the same process", "another process"])
def test_nonce_that_another_program_used_costs_no_call(grid, wallet_sender, twin, restarts):
    first, second = claimed(grid, 2)
    put_running(wallet_sender, grid, first)
    wallet_sender.tick()
    grid.devnet.anvil.rpc("anvil_dropAllTransactions")
    put_running(twin, grid, second)
    twin.finish()
    assert twin.states() == [SendState.FINAL]

    if restarts:
        wallet_sender.restart()
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert known(wallet_sender) == [False, True]
    assert states(grid, [first, second]) == {JobState.RUNNING}


def test_two_programs_with_one_wallet_lose_no_call(grid, wallet_sender, twin):
    numbers = claimed(grid, 8)
    for place, number in enumerate(numbers):
        put_running((wallet_sender, twin)[place % 2], grid, number)
        wallet_sender.tick()
        twin.tick()
        grid.devnet.anvil.mine()
        wallet_sender.clock.advance(11)
        twin.clock.advance(11)
    wallet_sender.finish()
    twin.finish()

    assert {*wallet_sender.states(), *twin.states()} == {SendState.FINAL}
    assert states(grid, numbers) == {JobState.RUNNING}


def test_replacement_survives_a_crash_before_it_is_sent(grid, wallet_sender):
    (number,) = claimed(grid, 1)
    put_running(wallet_sender, grid, number)
    wallet_sender.tick()
    for _ in range(2):
        grid.devnet.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(500 * 10**9))
        grid.devnet.anvil.mine()
        wallet_sender.clock.advance(40)
        wallet_sender.crash_at = "transaction_stored"
        wallet_sender.tick()
    wallet_sender.crash_at = ""
    assert len(wallet_sender.raws()) == 2
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert states(grid, [number]) == {JobState.RUNNING}


def test_wallet_that_runs_dry_goes_on_once_it_is_funded(grid, wallet_sender):
    """What the node took waits; what it could not be paid for is neither lost nor signed again."""
    numbers = claimed(grid, 3)
    put_running(wallet_sender, grid, *numbers)
    grid.devnet.anvil.rpc("anvil_setBalance", wallet_sender.who.address, "0x1")
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot pay"):
            wallet_sender.tick()
    assert len(wallet_sender.raws()) == 1

    grid.devnet.anvil.fund(wallet_sender.who.address)
    wallet_sender.finish()

    assert len(wallet_sender.raws()) == 1
    assert states(grid, numbers) == {JobState.RUNNING}
