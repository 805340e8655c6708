# SPDX-License-Identifier: Apache-2.0
"""What crashes, reorgs and other programs do to a wallet on a real chain: no call is lost, none is made twice."""

from __future__ import annotations

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.office import Office, claimed, job

from gridstead.domain.calls import SetRunning
from gridstead.domain.dispatch import Policy
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
def office(grid, tmp_path):
    """The provider's."""
    opened = Office(grid.devnet, grid.devnet.provider, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def twin(grid, tmp_path):
    """Another program with the same wallet and a store of its own."""
    (tmp_path / "twin").mkdir()
    opened = Office(grid.devnet, grid.devnet.provider, tmp_path / "twin")
    yield opened
    opened.close()


def put_running(office, grid, *numbers):
    for number in numbers:
        call = SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp)
        office.outbox.put(f"run:{number}", call)


def known(office):
    """Return which of the stored transactions the node knows."""
    asked = office.chain.anvil.rpc
    return [asked("eth_getTransactionByHash", one) is not None for one in office.raws()]


def states(grid, numbers):
    return {one.state for one in grid.ledger.jobs(numbers, at=grid.ledger.head()).values()}


def test_transaction_that_was_stored_and_never_sent_is_sent_by_the_next_process(grid, office):
    (number,) = claimed(grid, 1)
    put_running(office, grid, number)

    office.crash_at = "transaction_stored"
    office.tick()
    assert (known(office), office.states()) == ([False], [SendState.SENT])
    office.tick()

    assert known(office) == [True]
    office.finish()
    assert (len(office.raws()), office.states()) == (1, [SendState.FINAL])
    assert states(grid, [number]) == {JobState.RUNNING}


def test_transactions_that_were_stored_together_are_sent_together_by_the_next_process(grid, office):
    numbers = claimed(grid, 30)
    office.policy = Policy(confirmations=2, batch=1)
    office.restart()
    put_running(office, grid, *numbers)

    office.crash_at = "transaction_stored"
    office.tick()
    assert known(office) == [False] * 30
    office.tick()
    assert known(office) == [True] * 30
    office.finish()

    assert len(office.raws()) == 30
    assert states(grid, numbers) == {JobState.RUNNING}


@pytest.mark.parametrize("restarts", [False, True], ids=["the same process", "another process"])
def test_transaction_that_the_node_forgot_in_a_reorg_is_sent_again_as_it_was(grid, office, restarts):
    (number,) = claimed(grid, 1)
    put_running(office, grid, number)
    office.tick_and_mine(2)
    assert office.states() == [SendState.MINED]

    grid.reorg(2)
    grid.devnet.anvil.rpc("anvil_dropAllTransactions")
    assert known(office) == [False]
    if restarts:
        office.restart()
    office.tick()

    assert known(office) == [True]
    office.finish()
    assert (len(office.raws()), office.states()) == (1, [SendState.FINAL])
    assert states(grid, [number]) == {JobState.RUNNING}


@pytest.mark.parametrize("restarts", [False, True], ids=["the same process", "another process"])
def test_nonce_that_another_program_used_costs_no_call(grid, office, twin, restarts):
    first, second = claimed(grid, 2)
    put_running(office, grid, first)
    office.tick()
    grid.devnet.anvil.rpc("anvil_dropAllTransactions")
    put_running(twin, grid, second)
    twin.finish()
    assert twin.states() == [SendState.FINAL]

    if restarts:
        office.restart()
    office.finish()

    assert office.states() == [SendState.FINAL]
    assert known(office) == [False, True]
    assert states(grid, [first, second]) == {JobState.RUNNING}


def test_two_programs_with_one_wallet_lose_no_call(grid, office, twin):
    numbers = claimed(grid, 8)
    for place, number in enumerate(numbers):
        put_running((office, twin)[place % 2], grid, number)
        office.tick()
        twin.tick()
        grid.devnet.anvil.mine()
        office.clock.advance(11)
        twin.clock.advance(11)
    office.finish()
    twin.finish()

    assert {*office.states(), *twin.states()} == {SendState.FINAL}
    assert states(grid, numbers) == {JobState.RUNNING}


def test_replacement_survives_a_crash_before_it_is_sent(grid, office):
    (number,) = claimed(grid, 1)
    put_running(office, grid, number)
    office.tick()
    for _ in range(2):
        grid.devnet.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(500 * 10**9))
        grid.devnet.anvil.mine()
        office.clock.advance(40)
        office.crash_at = "transaction_stored"
        office.tick()
    office.crash_at = ""
    assert len(office.raws()) == 2
    office.finish()

    assert office.states() == [SendState.FINAL]
    assert states(grid, [number]) == {JobState.RUNNING}


def test_wallet_that_runs_dry_goes_on_once_it_is_funded(grid, office):
    """What the node took waits; what it could not be paid for is neither lost nor signed again."""
    numbers = claimed(grid, 3)
    put_running(office, grid, *numbers)
    grid.devnet.anvil.rpc("anvil_setBalance", office.who.address, "0x1")
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot pay"):
            office.tick()
    assert len(office.raws()) == 1

    grid.devnet.anvil.fund(office.who.address)
    office.finish()

    assert len(office.raws()) == 1
    assert states(grid, numbers) == {JobState.RUNNING}
