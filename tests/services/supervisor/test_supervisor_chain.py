# SPDX-License-Identifier: Apache-2.0
"""Tests of the supervisor after a reorg, on a new chain, and with RPC servers that disagree.

An attempt is a Slurm job that the supervisor submitted for a job of the grid.
"""

import itertools
from dataclasses import replace

import pytest
from tests.services.supervisor.supervisor_setup import (
    CONFIRMATIONS,
    CUSTOMER,
    PROVIDER,
    SupervisorSetup,
)

from gridstead.domain.jobs.lifecycle import JobState

OTHER_CUSTOMER = "0x" + "44" * 20


@pytest.fixture
def grid():
    return SupervisorSetup()


def test_new_job_is_settled_if_a_reorg_reuses_the_number_of_an_old_job(grid):
    number = grid.request_job()
    grid.run_steps(2)
    grid.ledger.reorg(5)  # This removes the first job.
    assert grid.request_job(OTHER_CUSTOMER) == number
    grid.run_steps(10)
    grid.finish_jobs()

    job = grid.ledger.job(number)
    assert job.customer == OTHER_CUSTOMER
    assert job.state is JobState.FINISHED
    old_attempt, new_attempt = grid.slurm.attempts()
    assert (old_attempt.user, old_attempt.state) == (CUSTOMER, "CANCELLED")
    assert (new_attempt.user, new_attempt.state) == (OTHER_CUSTOMER, "COMPLETED")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_settlement_that_a_deep_reorg_reverts_is_sent_again_and_paid_once(grid, is_restarted):
    """The supervisor closed the job in the journal before the reorg."""
    number, slurm_job_id = grid.request_running_job()
    grid.clock.advance(30)
    grid.slurm.end(slurm_job_id)
    grid.run_steps(3 * CONFIRMATIONS)
    settled_job = grid.ledger.job(number)
    assert grid.journal.open_entries() == ()

    grid.ledger.reorg(grid.ledger.head().number - settled_job.state_block + 1)
    assert grid.state_of(number) is JobState.RUNNING
    if is_restarted:
        grid.start_supervisor()
    grid.run_steps(3 * CONFIRMATIONS)

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == settled_job.final_cost
    assert grid.ledger.balance(CUSTOMER) == job.escrow - job.final_cost
    assert len(grid.slurm.submissions) == 1
    assert grid.journal.open_entries() == ()


def test_no_attempt_of_an_old_chain_is_adopted_on_a_new_chain(grid):
    number, slurm_job_id = grid.request_running_job()
    grid.slurm.end(slurm_job_id)
    grid.run_steps(20)
    new_grid = SupervisorSetup()
    new_grid.clock = grid.clock
    new_grid.ledger.clock = grid.clock
    # Make a reorg, so that the block hashes of the new chain differ from those of the old chain.
    new_grid.ledger.reorg(1)
    new_grid.ledger.mine()
    new_grid.ledger.add_provider(PROVIDER)
    new_grid.slurm = grid.slurm
    new_grid.start_supervisor()
    new_number = new_grid.request_job(script="another-script")
    new_grid.run_steps(3)

    assert new_number == number
    assert len(grid.slurm.submissions) == 2


def return_once_then(first, later):
    """Return a function that returns ``first()`` in its first call and ``later()`` afterwards."""
    functions = itertools.chain([first], itertools.repeat(later))

    def call_next():
        function = next(functions)
        return function()

    return call_next


def test_a_claim_is_not_lost_if_one_server_of_the_endpoint_lags(grid, monkeypatch):
    grid.request_job()
    grid.step()
    ledger = grid.ledger
    read_head = ledger.head

    # The third block before the newest block has no claim yet.
    def read_lagging_head():
        return ledger.block(read_head().number - 3)

    monkeypatch.setattr(ledger, "head", return_once_then(read_head, read_lagging_head))
    grid.supervisor.tick()
    monkeypatch.undo()
    grid.run_steps(2)

    assert len(grid.slurm.submissions) == 1


def test_a_claim_is_not_lost_if_one_server_of_the_endpoint_is_on_another_fork(grid, monkeypatch):
    grid.request_job()
    grid.step()
    ledger = grid.ledger
    read_head = ledger.head
    read_state = ledger._state_at

    def read_head_of_the_fork():
        return replace(read_head(), hash="another fork")

    def read_state_of_block_or_fork(block):
        # On the fork, the state is that of an older block, which has no claim.
        if block.hash == "another fork":
            block = ledger.block(block.number - 3)
        return read_state(block)

    monkeypatch.setattr(ledger, "head", return_once_then(read_head, read_head_of_the_fork))
    monkeypatch.setattr(ledger, "_state_at", read_state_of_block_or_fork)
    grid.supervisor.tick()
    monkeypatch.undo()
    grid.run_steps(2)

    assert len(grid.slurm.submissions) == 1


def test_an_attempt_is_not_cancelled_while_the_node_has_not_synced_the_claim(grid, monkeypatch):
    number, slurm_job_id = grid.request_running_job()
    head_number = grid.ledger.head().number
    for synced_height in range(head_number):
        block = grid.ledger.block(synced_height)
        monkeypatch.setattr(grid.ledger, "head", lambda block=block: block)
        grid.supervisor.tick()
        (attempt,) = grid.live_attempts()
        assert attempt.slurm_job_id == slurm_job_id
    monkeypatch.undo()
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED


def test_a_job_whose_claim_is_missing_for_a_moment_runs_once(grid):
    number = grid.request_job()
    grid.run_steps(2)
    grid.slurm.start(grid.slurm.attempts()[0].slurm_job_id)
    grid.ledger.reorg(1)
    grid.run_steps(2)
    if grid.state_of(number) is JobState.META_SCHEDULED:
        grid.ledger.claim(PROVIDER)
    grid.run_steps(3)
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
    assert len(grid.slurm.attempts()) == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_job_that_is_claimed_again_runs_after_its_first_attempt_was_cancelled(grid, is_restarted):
    number = grid.request_job()
    grid.run_steps(2)
    grid.slurm.start(grid.slurm.attempts()[0].slurm_job_id)
    grid.ledger.reorg(grid.ledger.head().number - grid.ledger.job(number).state_block + 1)
    assert grid.state_of(number) is JobState.META_SCHEDULED
    for _ in range(CONFIRMATIONS + 3):
        grid.tick()
        grid.ledger.mine()
        grid.clock.advance(1)
    assert [attempt.state for attempt in grid.slurm.attempts()] == ["CANCELLED"]
    assert grid.journal.open_entries() == ()

    if is_restarted:
        grid.start_supervisor()
    grid.run_steps()
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
