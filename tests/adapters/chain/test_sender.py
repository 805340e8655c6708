# SPDX-License-Identifier: Apache-2.0
"""The sender on a real chain: batches, restarts at every boundary, reorgs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.office import BOUNDARIES, Office, claimed, job, requested, settlement
from tests.devnet import Anvil, Devnet, wallet

from gridstead.domain.calls import ClaimCancelling, ClaimJobs, ClaimTopUp, Match, Refuse, SetRunning
from gridstead.domain.lifecycle import JobState
from gridstead.domain.sending import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def manual(chain):
    """The chain, mining only when told to."""
    chain.anvil.rpc("evm_setAutomine", False)
    return chain


@pytest.fixture
def grid(chain):
    made = RealGrid(chain)
    made.register()
    made.approve()
    return made


@pytest.fixture
def open_office(tmp_path):
    opened = []

    def open_one(chain, who, **policy):
        opened.append(Office(chain, who, tmp_path, **policy))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def office(grid, manual, open_office):
    """The provider's."""
    return open_office(manual, manual.provider)


def test_call_is_final_after_its_confirmations(grid, office):
    (number,) = claimed(grid, 1)
    office.outbox.put("run", SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp))

    states = []
    for _ in range(5):
        office.tick_and_mine()
        states.append(office.states()[0])

    assert states == [SendState.SENT, SendState.MINED, SendState.MINED, SendState.FINAL, SendState.FINAL]
    assert job(grid, number).state is JobState.RUNNING
    assert len(office.raws()) == 1


def test_whole_lives_of_jobs_take_one_transaction_per_step(grid, manual, office, open_office):
    numbers = requested(grid, 40)
    operator = open_office(manual, manual.operator)
    for number in numbers:
        operator.outbox.put(f"match:{number}", Match(proof=job(grid, number).proof, provider=grid.provider))
    operator.finish()
    office.outbox.put("claim", ClaimJobs(limit=50))
    office.finish()
    now = grid.ledger.head().timestamp
    for number in numbers:
        office.outbox.put(f"run:{number}", SetRunning(proof=job(grid, number).proof, started_at=now))
        office.outbox.put(f"end:{number}", settlement(job(grid, number)))
    office.finish()

    assert {one.state for one in grid.ledger.jobs(numbers, at=grid.ledger.head()).values()} == {JobState.FINISHED}
    assert set(operator.states()) | set(office.states()) == {SendState.FINAL}
    assert (len(operator.raws()), len(office.raws())) == (1, 3)


@pytest.mark.parametrize("count", [1, 20])
def test_batches_stay_within_their_gas(grid, manual, office, open_office, count):
    """The ceilings of encode.py hold with some room, and those of whole batches are not far too high either."""
    operator = open_office(manual, manual.operator)
    numbers = requested(grid, count * 3)
    for number in numbers[: 2 * count]:
        operator.outbox.put(f"match:{number}", Match(proof=job(grid, number).proof, provider=grid.provider))
        if number == numbers[count - 1]:
            operator.finish()
    operator.finish()
    office.outbox.put("claim", ClaimJobs(limit=2 * count))
    office.finish()
    now = grid.ledger.head().timestamp
    for number in numbers[:count]:
        office.outbox.put(f"run:{number}", SetRunning(proof=job(grid, number).proof, started_at=now))
        office.outbox.put(f"refuse:{number}", Refuse(proof=job(grid, number + count).proof))
    office.finish()
    manual.anvil.rpc("evm_increaseTime", 1000)
    for place, number in enumerate(numbers[:count]):
        error = "e" * 500 if place % 2 else ""
        call = settlement(job(grid, number), JobState.FAILED, seconds=77, exit_code=3, error=error)
        office.outbox.put(f"end:{number}", call)
    office.finish()

    assert {*operator.states(), *office.states()} == {SendState.FINAL}
    shares = {}
    for transaction_hash in operator.raws() + office.raws():
        used = int(manual.anvil.rpc("eth_getTransactionReceipt", transaction_hash)["gasUsed"], 16)
        limit = int(manual.anvil.rpc("eth_getTransactionByHash", transaction_hash)["gas"], 16)
        shares[f"{used} of {limit}"] = used / limit
    assert max(shares.values()) < 0.85, shares
    assert count == 1 or min(shares.values()) > 0.4, shares


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_restart_at_any_boundary_sends_each_call_once(grid, office, boundary):
    numbers = claimed(grid, 3)
    now = grid.ledger.head().timestamp
    for number in numbers:
        office.outbox.put(f"run:{number}", SetRunning(proof=job(grid, number).proof, started_at=now))
        office.outbox.put(f"end:{number}", settlement(job(grid, number)))

    for _ in range(6):
        office.crash_at = boundary
        office.tick_and_mine()
    office.crash_at = ""
    office.finish()

    assert set(office.states()) == {SendState.FINAL}
    assert {one.state for one in grid.ledger.jobs(numbers, at=grid.ledger.head()).values()} == {JobState.FINISHED}
    assert len(office.raws()) == 2


def test_refused_element_is_rejected_with_the_contracts_reason(grid, office):
    first, second = claimed(grid, 2)
    now = grid.ledger.head().timestamp
    office.outbox.put("good", SetRunning(proof=job(grid, first).proof, started_at=now))
    office.outbox.put("bad", settlement(job(grid, second), JobState.FINISHED))
    office.finish()

    assert office.states() == [SendState.FINAL, SendState.REJECTED]
    assert office.reasons()[1] == "InvalidTransition(2, 5)"


def test_call_that_would_revert_is_rejected_unsent(grid, manual, open_office):
    stranger = wallet(77)
    manual.anvil.fund(stranger.address)
    office = open_office(manual, stranger)
    office.outbox.put("claim", ClaimJobs(limit=1))
    office.tick()

    assert office.states() == [SendState.REJECTED]
    assert "ProviderNotJoined" in office.reasons()[0]
    assert office.raws() == []


def test_queues_can_be_emptied_when_they_are_empty(grid, office):
    office.outbox.put("cancelling", ClaimCancelling())
    office.outbox.put("top_up", ClaimTopUp())
    office.finish()

    assert office.states() == [SendState.FINAL, SendState.FINAL]


def test_wallet_without_coins_is_the_operators_matter(grid, manual, open_office):
    poor = wallet(78)
    office = open_office(manual, poor)
    (number,) = requested(grid, 1)
    office.outbox.put("match", Match(proof=job(grid, number).proof, provider=grid.provider))

    with pytest.raises(ConfigError, match="cannot pay"):
        office.tick()

    manual.anvil.fund(poor.address)
    office.finish()
    assert office.states() == [SendState.REJECTED]
    assert "missing role" in office.reasons()[0]


def test_pool_that_forgot_gets_the_same_bytes_again(grid, manual, office):
    (number,) = claimed(grid, 1)
    office.outbox.put("run", SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp))
    office.tick()
    manual.anvil.rpc("anvil_dropAllTransactions")
    office.clock.advance(11)
    office.finish()

    assert office.states() == [SendState.FINAL]
    assert len(office.raws()) == 1


def test_stuck_transaction_is_replaced_by_one_that_offers_more(grid, manual, office):
    (number,) = claimed(grid, 1)
    office.outbox.put("run", SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp))
    office.tick()
    states = []
    for _ in range(4):
        manual.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(50 * 10**9))
        manual.anvil.mine()
        office.clock.advance(23)
        office.tick()
        states += office.states()

    assert states == [SendState.SENT, SendState.SENT, SendState.MINED, SendState.MINED]
    assert len(office.raws()) >= 2
    assert job(grid, number).state is JobState.RUNNING


def test_reorg_sends_the_same_bytes_again(grid, office):
    (number,) = claimed(grid, 1)
    office.outbox.put("run", SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp))
    office.tick_and_mine(2)
    assert office.states() == [SendState.MINED]

    grid.reorg(2)
    assert job(grid, number).state is JobState.SCHEDULED
    office.finish()

    assert office.states() == [SendState.FINAL]
    assert job(grid, number).state is JobState.RUNNING
    assert len(office.raws()) == 1


def test_reorg_that_takes_the_job_away_rejects_its_calls_and_keeps_the_nonces_going(grid, manual, office):
    manual.anvil.mine()
    survivor = claimed(grid, 1, "survivor")
    (number,) = claimed(grid, 1, "doomed")
    doomed = job(grid, number)
    blocks = grid.ledger.head().number - doomed.state_block + 3
    office.outbox.put("doomed", SetRunning(proof=doomed.proof, started_at=grid.ledger.head().timestamp))
    office.tick_and_mine()
    settled = job(grid, survivor[0])
    office.outbox.put("later", SetRunning(proof=settled.proof, started_at=grid.ledger.head().timestamp))
    office.tick_and_mine()
    assert job(grid, number).state is JobState.RUNNING

    grid.reorg(blocks + 2)
    assert grid.ledger.jobs([number], at=grid.ledger.head()) == {}
    old = office.raws()
    office.finish()

    assert office.states() == [SendState.REJECTED, SendState.FINAL]
    assert job(grid, survivor[0]).state is JobState.RUNNING
    assert manual.anvil.rpc("eth_getTransactionReceipt", old[0]) is None


def test_number_that_belongs_to_another_customer_after_a_reorg_is_left_alone(grid, manual, office):
    """Check 10 of issue 2: the old bytes must never be sent again, whatever state the other job is in."""
    manual.anvil.mine()
    (number,) = claimed(grid, 1, "old")
    old_job = job(grid, number)
    manual.anvil.mine(2)
    office.outbox.put("run", SetRunning(proof=old_job.proof, started_at=grid.ledger.head().timestamp))
    office.outbox.put("end", settlement(old_job, JobState.FAILED, exit_code=9 << 8, error="old"))
    office.tick_and_mine(2)
    assert job(grid, number).state is JobState.FAILED
    old = office.raws()

    grid.reorg(8)
    assert grid.ledger.jobs([number], at=grid.ledger.head()) == {}
    assert claimed(grid, 1, "new") == [number]
    office.restart()
    office.finish()
    for _ in range(5):
        office.tick_and_mine()

    assert office.states() == [SendState.REJECTED, SendState.REJECTED]
    assert job(grid, number).state is JobState.SCHEDULED
    assert job(grid, number).last_error == ""
    assert all(manual.anvil.rpc("eth_getTransactionByHash", one) is None for one in old)


def test_fresh_chain_gets_nothing_of_the_old_one(grid, manual, office, tmp_path):
    """The second part of check 10: the same chain id, contracts at the same addresses and an outbox half done."""
    old, stays = claimed(grid, 2, "old")
    office.outbox.put("mined", SetRunning(proof=job(grid, stays).proof, started_at=grid.ledger.head().timestamp))
    office.tick_and_mine(2)
    office.outbox.put("sent", SetRunning(proof=job(grid, old).proof, started_at=grid.ledger.head().timestamp))
    office.tick()
    fresh = Devnet(tmp_path)
    try:
        other = RealGrid(fresh)
        other.register()
        other.approve()
        numbers = claimed(other, 2, "new")
        assert (fresh.addresses, numbers) == (manual.addresses, [old, stays])
        fresh.anvil.rpc("evm_setAutomine", False)
        office.chain, office.ledger = fresh, other.ledger
        office.restart()
        office.finish()

        assert office.states() == [SendState.REJECTED, SendState.REJECTED]
        assert {job(other, number).state for number in numbers} == {JobState.SCHEDULED}
        assert all(fresh.anvil.rpc("eth_getTransactionByHash", one) is None for one in office.raws())
    finally:
        fresh.close()


def test_chain_without_contracts_is_waited_for(grid, manual, office):
    (number,) = claimed(grid, 1)
    office.outbox.put("run", SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp))
    fresh, url = Anvil(), manual.node._url
    try:
        manual.node._url = fresh.url
        with pytest.raises(ChainUnavailable, match="no contract"):
            office.tick()
    finally:
        manual.node._url = url
        fresh.kill()

    office.finish()
    assert office.states() == [SendState.FINAL]


def test_dead_endpoint_is_waited_for(grid, manual, office):
    (number,) = claimed(grid, 1)
    office.outbox.put("run", SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp))
    url = manual.node._url
    manual.node._url = "http://127.0.0.1:9"
    with pytest.raises(ChainUnavailable):
        office.tick()
    manual.node._url = url

    office.finish()
    assert office.states() == [SendState.FINAL]


@pytest.fixture
def small_blocks(manual):
    """Blocks that hold 400,000 gas."""
    usual = manual.anvil.rpc("eth_getBlockByNumber", "latest", False)["gasLimit"]
    manual.anvil.rpc("evm_setBlockGasLimit", hex(400_000))
    manual.anvil.mine()
    yield
    manual.anvil.rpc("evm_setBlockGasLimit", usual)
    manual.anvil.mine()


def test_batches_stay_within_half_a_block(grid, manual, office, request):
    numbers = claimed(grid, 6)
    request.getfixturevalue("small_blocks")
    for number in numbers:
        call = SetRunning(proof=job(grid, number).proof, started_at=grid.ledger.head().timestamp)
        office.outbox.put(f"run:{number}", call)
    office.finish()

    assert office.states() == [SendState.FINAL] * 6
    assert len(office.raws()) == 2


def test_transaction_that_fits_in_no_block_costs_its_own_call_only(grid, manual, office, request):
    first, second = claimed(grid, 2)
    request.getfixturevalue("small_blocks")
    large = replace(settlement(job(grid, first), JobState.FAILED), error="x" * 500)
    office.outbox.put("large", large)
    office.outbox.put("run", SetRunning(proof=job(grid, second).proof, started_at=grid.ledger.head().timestamp))
    office.finish()

    assert office.states() == [SendState.REJECTED, SendState.FINAL]
    assert office.reasons()[0].startswith("the node refused it:")
    assert "gas" in office.reasons()[0].lower()
