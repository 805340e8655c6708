# SPDX-License-Identifier: Apache-2.0
"""Tests of the sender of transactions with the contracts of DeepSquare 1.2.

These contracts have no batches, so each call needs a transaction. The calls keep their order.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests import billing_oracle
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.sender_setup import (
    BOUNDARIES,
    WalletSender,
    automining,
    claim_jobs,
    request_jobs,
    settlement,
)
from tests.fakes.ledger import PRICES, SMALL

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import ClaimJobs, Refuse
from gridstead.domain.transactions.outbox import SendState


@pytest.fixture
def generation():
    """Run all tests of this module on the contracts of DeepSquare 1.2."""
    return "1.2"


@pytest.fixture
def grid(chain):
    """The grid. The provider has joined the grid. Blocks are mined only on request."""
    real_grid = join_real_grid(chain)
    chain.anvil.rpc("evm_setAutomine", False)
    return real_grid


@pytest.fixture
def open_sender(grid, tmp_path):
    """Return a function that opens a wallet's sender."""
    with ExitStack() as stack:

        def create(wallet):
            sender = WalletSender(grid.devnet, wallet, tmp_path, max_batch_calls=1)
            stack.callback(sender.close)
            return sender

        yield create


@pytest.fixture
def operator(open_sender, grid):
    """The operator's sender."""
    return open_sender(grid.devnet.operator)


@pytest.fixture
def provider(open_sender, grid):
    """The provider's sender."""
    return open_sender(grid.devnet.provider)


def test_each_call_for_a_job_is_sent_as_one_transaction(grid, operator, provider):
    first, second = request_jobs(grid, 2)
    operator.put_match(grid, first, second)
    operator.finish()
    provider.outbox.put("claim:1", ClaimJobs(limit=50))
    provider.finish()
    provider.outbox.put("claim:2", ClaimJobs(limit=50))
    provider.finish()
    provider.put_running(grid, first)
    provider.outbox.put("refuse", Refuse(job_key=grid.job(second).job_key))
    provider.finish()
    grid.pass_time(1000)
    call = settlement(grid.job(first), JobState.FAILED, seconds=179, exit_code=256, error="no")
    provider.outbox.put("end", call)
    provider.finish()

    assert set(operator.states()) == {SendState.FINAL}
    assert set(provider.states()) == {SendState.FINAL}
    assert len(provider.hashes()) == 5  # two claims, a start, a refusal and a settlement
    # Job 99 does not exist.
    assert set(grid.jobs(first, second, 99)) == {grid.job_id(first), grid.job_id(second)}
    failed_job, refused_job = grid.job(first), grid.job(second)
    assert (failed_job.state, failed_job.exit_code, failed_job.last_error) == (
        JobState.FAILED,
        256,
        "no",
    )
    assert failed_job.price_per_min == billing_oracle.price(SMALL, PRICES)
    assert failed_job.final_cost == 2 * failed_job.price_per_min  # 179 s: 2 whole minutes
    assert (refused_job.state, refused_job.price_per_min) == (JobState.PENDING, 0)


def test_calls_are_sent_one_by_one_in_order(grid, operator):
    numbers = request_jobs(grid, 5)
    numbers.reverse()
    operator.put_match(grid, *numbers)
    operator.finish()
    with automining(grid.devnet.anvil):
        for _ in numbers:
            grid.claim()

    assert operator.states() == [SendState.FINAL] * 5
    assert len(operator.hashes()) == 5
    # A provider claims its jobs in the order of their matches, so the blocks of the claims show
    # the order of the matches.
    claim_blocks = [grid.job(number).state_block for number in numbers]
    assert claim_blocks == sorted(claim_blocks)


def test_call_that_the_contract_refuses_is_rejected_and_does_not_block_other_calls(grid, provider):
    first, second = claim_jobs(grid, 2)
    with automining(grid.devnet.anvil):
        grid.claim()  # one claim takes one job
    provider.outbox.put("bad", settlement(grid.job(first), JobState.FINISHED))
    provider.put_running(grid, second)
    provider.finish()

    assert provider.states() == [SendState.REJECTED, SendState.FINAL]
    # From SCHEDULED (2) to FINISHED (5).
    assert "InvalidTransition(2, 5)" in provider.reasons()[0]


def test_call_of_a_wallet_without_the_role_is_rejected(grid, provider):
    provider.put_match(grid, *request_jobs(grid, 1))
    provider.finish()

    assert provider.states() == [SendState.REJECTED]
    assert "missing role" in provider.reasons()[0]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_each_call_is_sent_once_if_the_sender_crashes_between_two_steps(grid, provider, boundary):
    (number,) = claim_jobs(grid, 1)
    provider.put_running(grid, number)
    provider.outbox.put("end", settlement(grid.job(number), seconds=60))

    for _ in range(6):
        provider.crash_at = boundary
        provider.tick_and_mine()
    provider.crash_at = ""
    provider.finish()

    assert provider.states() == [SendState.FINAL, SendState.FINAL]
    assert grid.job(number).state is JobState.FINISHED
    assert len(provider.hashes()) == 2


def test_transaction_that_a_reorg_removed_is_sent_again(grid, provider):
    (number,) = claim_jobs(grid, 1)
    provider.put_running(grid, number)
    provider.tick_and_mine(2)

    grid.reorg(2)
    assert grid.job(number).state is JobState.SCHEDULED
    provider.finish()

    assert provider.states() == [SendState.FINAL]
    assert grid.job(number).state is JobState.RUNNING
    assert len(provider.hashes()) == 1
