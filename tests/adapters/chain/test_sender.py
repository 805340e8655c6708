# SPDX-License-Identifier: Apache-2.0
"""The sender on a real chain: batches, restarts at every boundary, reorgs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.sender_setup import (
    BOUNDARIES,
    WalletSender,
    claimed,
    job,
    requested,
    settlement,
)
from tests.devnet import Anvil, Devnet, wallet

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import (
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Match,
    Refuse,
    SetRunning,
)
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import ChainUnavailable, ConfigError


@pytest.fixture
def manual(chain):
    """The chain, which mines only on request."""
    chain.anvil.rpc("evm_setAutomine", False)
    return chain


@pytest.fixture
def grid(chain):
    real_grid = RealGrid(chain)
    real_grid.register()
    real_grid.approve()
    return real_grid


@pytest.fixture
def open_sender(tmp_path):
    opened = []

    def create(chain, wallet, **policy):
        opened.append(WalletSender(chain, wallet, tmp_path, **policy))
        return opened[-1]

    yield create
    for sender in opened:
        sender.close()


@pytest.fixture
def wallet_sender(grid, manual, open_sender):
    """The provider's sender."""
    return open_sender(manual, manual.provider)


def test_call_is_final_after_its_confirmations(grid, wallet_sender):
    (number,) = claimed(grid, 1)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp),
    )

    states = []
    for _ in range(5):
        wallet_sender.tick_and_mine()
        states.append(wallet_sender.states()[0])

    assert states == [
        SendState.SENT,
        SendState.MINED,
        SendState.MINED,
        SendState.FINAL,
        SendState.FINAL,
    ]
    assert job(grid, number).state is JobState.RUNNING
    assert len(wallet_sender.hashes()) == 1


def test_jobs_take_one_transaction_per_step(grid, manual, wallet_sender, open_sender):
    numbers = requested(grid, 40)
    operator = open_sender(manual, manual.operator)
    for number in numbers:
        operator.outbox.put(
            f"match:{number}", Match(job_key=job(grid, number).job_key, provider=grid.provider)
        )
    operator.finish()
    wallet_sender.outbox.put("claim", ClaimJobs(limit=50))
    wallet_sender.finish()
    now = grid.ledger.head().timestamp
    for number in numbers:
        wallet_sender.outbox.put(
            f"run:{number}", SetRunning(job_key=job(grid, number).job_key, started_at=now)
        )
        wallet_sender.outbox.put(f"end:{number}", settlement(job(grid, number)))
    wallet_sender.finish()

    assert states(grid, numbers) == {JobState.FINISHED}
    assert set(operator.states()) | set(wallet_sender.states()) == {SendState.FINAL}
    assert (len(operator.hashes()), len(wallet_sender.hashes())) == (1, 3)


@pytest.mark.parametrize("count", [1, 20])
def test_batches_stay_within_their_gas_limit(grid, manual, wallet_sender, open_sender, count):
    """The limits in encode.py are sufficient, and those of large batches are not much too high."""
    operator = open_sender(manual, manual.operator)
    numbers = requested(grid, count * 3)
    for number in numbers[: 2 * count]:
        operator.outbox.put(
            f"match:{number}", Match(job_key=job(grid, number).job_key, provider=grid.provider)
        )
        if number == numbers[count - 1]:
            operator.finish()
    operator.finish()
    wallet_sender.outbox.put("claim", ClaimJobs(limit=2 * count))
    wallet_sender.finish()
    now = grid.ledger.head().timestamp
    for number in numbers[:count]:
        wallet_sender.outbox.put(
            f"run:{number}", SetRunning(job_key=job(grid, number).job_key, started_at=now)
        )
        wallet_sender.outbox.put(
            f"refuse:{number}", Refuse(job_key=job(grid, number + count).job_key)
        )
    wallet_sender.finish()
    manual.anvil.rpc("evm_increaseTime", 1000)
    for place, number in enumerate(numbers[:count]):
        error = "e" * 500 if place % 2 else ""
        call = settlement(job(grid, number), JobState.FAILED, seconds=77, exit_code=3, error=error)
        wallet_sender.outbox.put(f"end:{number}", call)
    wallet_sender.finish()

    assert {*operator.states(), *wallet_sender.states()} == {SendState.FINAL}
    shares = {}
    for transaction_hash in operator.hashes() + wallet_sender.hashes():
        used = int(manual.anvil.rpc("eth_getTransactionReceipt", transaction_hash)["gasUsed"], 16)
        limit = int(manual.anvil.rpc("eth_getTransactionByHash", transaction_hash)["gas"], 16)
        shares[f"{used} of {limit}"] = used / limit
    assert max(shares.values()) < 0.85, shares
    assert count == 1 or min(shares.values()) > 0.4, shares


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_restart_at_any_boundary_sends_each_call_once(grid, wallet_sender, boundary):
    numbers = claimed(grid, 3)
    now = grid.ledger.head().timestamp
    for number in numbers:
        wallet_sender.outbox.put(
            f"run:{number}", SetRunning(job_key=job(grid, number).job_key, started_at=now)
        )
        wallet_sender.outbox.put(f"end:{number}", settlement(job(grid, number)))

    for _ in range(6):
        wallet_sender.crash_at = boundary
        wallet_sender.tick_and_mine()
    wallet_sender.crash_at = ""
    wallet_sender.finish()

    assert set(wallet_sender.states()) == {SendState.FINAL}
    assert states(grid, numbers) == {JobState.FINISHED}
    assert len(wallet_sender.hashes()) == 2


def states(grid, numbers):
    return {job.state for job in grid.jobs(*numbers).values()}


def test_refused_element_is_rejected_with_the_contracts_error(grid, wallet_sender):
    first, second = claimed(grid, 2)
    now = grid.ledger.head().timestamp
    wallet_sender.outbox.put("good", SetRunning(job_key=job(grid, first).job_key, started_at=now))
    wallet_sender.outbox.put("bad", settlement(job(grid, second), JobState.FINISHED))
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL, SendState.REJECTED]
    assert wallet_sender.reasons()[1] == "InvalidTransition(2, 5)"


def test_call_that_would_revert_is_rejected_without_a_transaction(grid, manual, open_sender):
    outsider = wallet(77)
    manual.anvil.fund(outsider.address)
    wallet_sender = open_sender(manual, outsider)
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


def test_wallet_without_coins_is_a_config_error(grid, manual, open_sender):
    poor = wallet(78)
    wallet_sender = open_sender(manual, poor)
    (number,) = requested(grid, 1)
    wallet_sender.outbox.put(
        "match", Match(job_key=job(grid, number).job_key, provider=grid.provider)
    )

    with pytest.raises(ConfigError, match="cannot pay"):
        wallet_sender.tick()

    manual.anvil.fund(poor.address)
    wallet_sender.finish()
    assert wallet_sender.states() == [SendState.REJECTED]
    assert "missing role" in wallet_sender.reasons()[0]


def test_dropped_transaction_is_sent_again(grid, manual, wallet_sender):
    (number,) = claimed(grid, 1)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp),
    )
    wallet_sender.tick()
    manual.anvil.rpc("anvil_dropAllTransactions")
    wallet_sender.clock.advance(11)
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert len(wallet_sender.hashes()) == 1


def test_stuck_transaction_is_replaced_with_higher_fees(grid, manual, wallet_sender):
    (number,) = claimed(grid, 1)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp),
    )
    wallet_sender.tick()
    states = []
    for _ in range(4):
        manual.anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(50 * 10**9))
        manual.anvil.mine()
        wallet_sender.clock.advance(23)
        wallet_sender.tick()
        states += wallet_sender.states()

    assert states == [SendState.SENT, SendState.SENT, SendState.MINED, SendState.MINED]
    assert len(wallet_sender.hashes()) >= 2
    assert job(grid, number).state is JobState.RUNNING


def test_transaction_lost_in_a_reorg_is_sent_again(grid, wallet_sender):
    (number,) = claimed(grid, 1)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp),
    )
    wallet_sender.tick_and_mine(2)
    assert wallet_sender.states() == [SendState.MINED]

    grid.reorg(2)
    assert job(grid, number).state is JobState.SCHEDULED
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL]
    assert job(grid, number).state is JobState.RUNNING
    assert len(wallet_sender.hashes()) == 1


def test_calls_of_a_job_lost_in_a_reorg_are_rejected(grid, manual, wallet_sender):
    manual.anvil.mine()
    survivor = claimed(grid, 1, "survivor")
    (number,) = claimed(grid, 1, "doomed")
    doomed = job(grid, number)
    blocks = grid.ledger.head().number - doomed.state_block + 3
    wallet_sender.outbox.put(
        "doomed", SetRunning(job_key=doomed.job_key, started_at=grid.ledger.head().timestamp)
    )
    wallet_sender.tick_and_mine()
    settled = job(grid, survivor[0])
    wallet_sender.outbox.put(
        "later", SetRunning(job_key=settled.job_key, started_at=grid.ledger.head().timestamp)
    )
    wallet_sender.tick_and_mine()
    assert job(grid, number).state is JobState.RUNNING

    grid.reorg(blocks + 2)
    assert grid.jobs(number) == {}
    old = wallet_sender.hashes()
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.REJECTED, SendState.FINAL]
    assert job(grid, survivor[0]).state is JobState.RUNNING
    assert manual.anvil.rpc("eth_getTransactionReceipt", old[0]) is None


def test_reused_job_number_gets_no_old_call(grid, manual, wallet_sender):
    """Check 10 of issue 2: the old transaction must never be sent again."""
    manual.anvil.mine()
    (number,) = claimed(grid, 1, "old")
    old_job = job(grid, number)
    manual.anvil.mine(2)
    wallet_sender.outbox.put(
        "run", SetRunning(job_key=old_job.job_key, started_at=grid.ledger.head().timestamp)
    )
    wallet_sender.outbox.put(
        "end", settlement(old_job, JobState.FAILED, exit_code=9 << 8, error="old")
    )
    wallet_sender.tick_and_mine(2)
    assert job(grid, number).state is JobState.FAILED
    old = wallet_sender.hashes()

    grid.reorg(8)
    assert grid.jobs(number) == {}
    assert claimed(grid, 1, "new") == [number]
    wallet_sender.restart()
    wallet_sender.finish()
    for _ in range(5):
        wallet_sender.tick_and_mine()

    assert wallet_sender.states() == [SendState.REJECTED, SendState.REJECTED]
    assert job(grid, number).state is JobState.SCHEDULED
    assert job(grid, number).last_error == ""
    assert not any(manual.anvil.rpc("eth_getTransactionByHash", tx_hash) for tx_hash in old)


def test_new_chain_gets_no_old_call(grid, manual, wallet_sender, tmp_path):
    """The second part of check 10: same chain id, same addresses, and a partly sent outbox."""
    old, stays = claimed(grid, 2, "old")
    wallet_sender.outbox.put(
        "mined",
        SetRunning(job_key=job(grid, stays).job_key, started_at=grid.ledger.head().timestamp),
    )
    wallet_sender.tick_and_mine(2)
    wallet_sender.outbox.put(
        "sent", SetRunning(job_key=job(grid, old).job_key, started_at=grid.ledger.head().timestamp)
    )
    wallet_sender.tick()
    fresh = Devnet(tmp_path)
    try:
        other = RealGrid(fresh)
        other.register()
        other.approve()
        numbers = claimed(other, 2, "new")
        assert (fresh.addresses, numbers) == (manual.addresses, [old, stays])
        fresh.anvil.rpc("evm_setAutomine", False)
        wallet_sender.chain, wallet_sender.ledger = fresh, other.ledger
        wallet_sender.restart()
        wallet_sender.finish()

        assert wallet_sender.states() == [SendState.REJECTED, SendState.REJECTED]
        assert {job(other, number).state for number in numbers} == {JobState.SCHEDULED}
        hashes = wallet_sender.hashes()
        assert not any(fresh.anvil.rpc("eth_getTransactionByHash", tx_hash) for tx_hash in hashes)
    finally:
        fresh.close()


def test_sender_waits_for_contracts(grid, manual, wallet_sender):
    (number,) = claimed(grid, 1)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp),
    )
    fresh, url = Anvil(), manual.node._url
    try:
        manual.node._url = fresh.url
        with pytest.raises(ChainUnavailable, match="no contract"):
            wallet_sender.tick()
    finally:
        manual.node._url = url
        fresh.kill()

    wallet_sender.finish()
    assert wallet_sender.states() == [SendState.FINAL]


def test_sender_waits_for_the_endpoint(grid, manual, wallet_sender):
    (number,) = claimed(grid, 1)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp),
    )
    url = manual.node._url
    manual.node._url = "http://127.0.0.1:9"
    with pytest.raises(ChainUnavailable):
        wallet_sender.tick()
    manual.node._url = url

    wallet_sender.finish()
    assert wallet_sender.states() == [SendState.FINAL]


@pytest.fixture
def small_blocks(manual):
    """Blocks that hold 400,000 gas."""
    usual = manual.anvil.rpc("eth_getBlockByNumber", "latest", False)["gasLimit"]
    manual.anvil.rpc("evm_setBlockGasLimit", hex(400_000))
    manual.anvil.mine()
    yield
    manual.anvil.rpc("evm_setBlockGasLimit", usual)
    manual.anvil.mine()


def test_batches_stay_within_half_a_block(grid, manual, wallet_sender, request):
    numbers = claimed(grid, 6)
    request.getfixturevalue("small_blocks")
    for number in numbers:
        call = SetRunning(
            job_key=job(grid, number).job_key, started_at=grid.ledger.head().timestamp
        )
        wallet_sender.outbox.put(f"run:{number}", call)
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.FINAL] * 6
    assert len(wallet_sender.hashes()) == 2


def test_transaction_above_the_block_gas_limit_rejects_only_its_call(
    grid, manual, wallet_sender, request
):
    first, second = claimed(grid, 2)
    request.getfixturevalue("small_blocks")
    large = replace(settlement(job(grid, first), JobState.FAILED), error="x" * 500)
    wallet_sender.outbox.put("large", large)
    wallet_sender.outbox.put(
        "run",
        SetRunning(job_key=job(grid, second).job_key, started_at=grid.ledger.head().timestamp),
    )
    wallet_sender.finish()

    assert wallet_sender.states() == [SendState.REJECTED, SendState.FINAL]
    assert wallet_sender.reasons()[0].startswith("the node refused the transaction:")
    assert "gas" in wallet_sender.reasons()[0].lower()
