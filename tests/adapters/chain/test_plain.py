# SPDX-License-Identifier: Apache-2.0
"""The sender on contracts of the first generation: one transaction per call, in order."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests import billing_oracle
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.sender_setup import (
    BOUNDARIES,
    WalletSender,
    claimed,
    job,
    requested,
    settlement,
)
from tests.fakes.ledger import PRICES, SMALL

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Match, Refuse, SetRunning
from gridstead.domain.transactions.outbox import SendState


@pytest.fixture
def generation():
    return "1.2"


@pytest.fixture
def grid(chain):
    real_grid = RealGrid(chain)
    real_grid.register()
    real_grid.approve()
    chain.anvil.rpc("evm_setAutomine", False)
    return real_grid


@pytest.fixture
def wallet_sender(grid, tmp_path):
    """Return a function that opens a wallet's sender."""
    with ExitStack() as stack:

        def open_sender(wallet):
            sender = WalletSender(grid.devnet, wallet, tmp_path, batch=1)
            stack.callback(sender.close)
            return sender

        yield open_sender


def test_jobs_take_one_transaction_per_call(grid, wallet_sender):
    first, second = requested(grid, 2)
    operator, provider = wallet_sender(grid.devnet.operator), wallet_sender(grid.devnet.provider)
    for number in (first, second):
        operator.outbox.put(
            f"match:{number}", Match(job_key=job(grid, number).job_key, provider=grid.provider)
        )
    operator.finish()
    for turn in range(2):
        provider.outbox.put(f"claim:{turn}", ClaimJobs(limit=50))
        provider.finish()
    provider.outbox.put("run", SetRunning(job_key=job(grid, first).job_key, started_at=1))
    provider.outbox.put("refuse", Refuse(job_key=job(grid, second).job_key))
    provider.finish()
    grid.pass_time(1000)
    provider.outbox.put(
        "end", settlement(job(grid, first), JobState.FAILED, seconds=179, exit_code=256, error="no")
    )
    provider.finish()

    assert set(grid.jobs(first, second, 99)) == {grid.job_id(first), grid.job_id(second)}
    jobs = {number: grid.job(number) for number in (first, second)}
    assert {*operator.states(), *provider.states()} == {SendState.FINAL}
    assert (jobs[first].state, jobs[second].state) == (JobState.FAILED, JobState.PENDING)
    assert (jobs[first].exit_code, jobs[first].last_error) == (256, "no")
    assert jobs[first].price_per_min == billing_oracle.price(SMALL, PRICES)
    assert jobs[first].final_cost == 2 * jobs[first].price_per_min
    assert jobs[second].price_per_min == 0
    assert len(provider.hashes()) == 5


def test_calls_are_sent_one_by_one_in_order(grid, wallet_sender):
    numbers = requested(grid, 5)
    operator = wallet_sender(grid.devnet.operator)
    for number in reversed(numbers):
        operator.outbox.put(
            f"match:{number}", Match(job_key=job(grid, number).job_key, provider=grid.provider)
        )
    operator.finish()
    grid.devnet.anvil.rpc("evm_setAutomine", True)
    for _ in numbers:
        grid.claim()
    changed = {number: job(grid, number).state_block for number in numbers}

    assert operator.states() == [SendState.FINAL] * 5
    assert len(operator.hashes()) == 5
    assert sorted(numbers, key=changed.__getitem__) == numbers[::-1]


def test_refused_call_is_rejected_and_does_not_block_others(grid, wallet_sender):
    first, second = claimed(grid, 2)
    grid.devnet.anvil.rpc("evm_setAutomine", True)
    grid.claim()
    grid.devnet.anvil.rpc("evm_setAutomine", False)
    provider = wallet_sender(grid.devnet.provider)
    provider.outbox.put("bad", settlement(job(grid, first), JobState.FINISHED))
    provider.outbox.put("good", SetRunning(job_key=job(grid, second).job_key, started_at=1))
    provider.finish()

    assert provider.states() == [SendState.REJECTED, SendState.FINAL]
    assert "InvalidTransition(2, 5)" in provider.reasons()[0]


def test_missing_role_rejects_the_call(grid, wallet_sender):
    (number,) = requested(grid, 1)
    outsider = wallet_sender(grid.devnet.provider)
    outsider.outbox.put("match", Match(job_key=job(grid, number).job_key, provider=grid.provider))
    outsider.finish()

    assert outsider.states() == [SendState.REJECTED]
    assert "missing role" in outsider.reasons()[0]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_restart_at_any_boundary_sends_each_call_once(grid, wallet_sender, boundary):
    (number,) = claimed(grid, 1)
    provider = wallet_sender(grid.devnet.provider)
    provider.outbox.put("run", SetRunning(job_key=job(grid, number).job_key, started_at=1))
    provider.outbox.put("end", settlement(job(grid, number), seconds=60))

    for _ in range(6):
        provider.crash_at = boundary
        provider.tick_and_mine()
    provider.crash_at = ""
    provider.finish()

    assert provider.states() == [SendState.FINAL, SendState.FINAL]
    assert job(grid, number).state is JobState.FINISHED
    assert len(provider.hashes()) == 2


def test_reorg_sends_the_same_bytes_again(grid, wallet_sender):
    (number,) = claimed(grid, 1)
    provider = wallet_sender(grid.devnet.provider)
    provider.outbox.put("run", SetRunning(job_key=job(grid, number).job_key, started_at=1))
    provider.tick_and_mine(2)

    grid.reorg(2)
    assert job(grid, number).state is JobState.SCHEDULED
    provider.finish()

    assert provider.states() == [SendState.FINAL]
    assert job(grid, number).state is JobState.RUNNING
    assert len(provider.hashes()) == 1
