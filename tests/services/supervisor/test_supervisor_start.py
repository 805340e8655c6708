# SPDX-License-Identifier: Apache-2.0
"""Tests of the report of a start, which the supervisor sends on the newest block.

A settlement waits until the claim has enough confirmations.
"""

import pytest
from structlog.testing import capture_logs
from tests import billing_oracle
from tests.services.supervisor.supervisor_setup import CONFIRMATIONS, PROVIDER, SupervisorSetup

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.transactions.calls import SetRunning
from gridstead.domain.transactions.outbox import EntryChange, SendState
from gridstead.errors import ChainUnavailable


@pytest.fixture
def grid():
    return SupervisorSetup()


def start_in_slurm(grid):
    """Request a job, submit it and start it in Slurm. Return (job number, Slurm job id)."""
    number = grid.request_job()
    grid.run_steps(2)
    slurm_job_id = grid.slurm.attempts()[-1].slurm_job_id
    grid.slurm.start(slurm_job_id)
    assert grid.state_of(number) is JobState.SCHEDULED
    return number, slurm_job_id


def remove_claim(grid, number, claim_block):
    """Make a reorg that removes the block with the claim of a job and all later blocks."""
    grid.ledger.reorg(grid.ledger.head().number - claim_block + 1)
    assert grid.state_of(number) is JobState.META_SCHEDULED


def test_a_start_is_on_the_chain_one_block_after_slurm_started_the_job(grid):
    number, _ = start_in_slurm(grid)
    claim_block = grid.ledger.job(number).state_block
    grid.step()

    job = grid.ledger.job(number)
    assert job.state is JobState.RUNNING
    assert job.state_block < claim_block + CONFIRMATIONS


@pytest.mark.parametrize("end_state", ["COMPLETED", "FAILED"])
def test_running_and_the_end_of_a_short_job_are_two_events_in_order(grid, end_state):
    number, slurm_job_id = start_in_slurm(grid)
    grid.clock.advance(1)
    grid.slurm.end(slurm_job_id, end_state)
    claim_block = grid.ledger.job(number).state_block
    states = []
    while grid.ledger.head().number < claim_block + CONFIRMATIONS:
        grid.step()
        states.append(grid.state_of(number))
    grid.run_steps(1)

    assert states
    assert set(states) == {JobState.RUNNING}
    last_state = JobState.FINISHED if end_state == "COMPLETED" else JobState.FAILED
    assert grid.state_of(number) is last_state
    job = grid.ledger.job(number)
    assert job.final_cost == billing_oracle.cost(1, job.price_per_min)


def test_a_customer_who_cancels_after_the_first_block_of_a_run_pays_for_it(grid):
    number, _ = start_in_slurm(grid)
    grid.step()
    grid.clock.advance(30)
    grid.ledger.cancel(number)
    grid.run_steps()  # the request is confirmed
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert job.final_cost >= billing_oracle.cost(30, job.price_per_min)


def test_a_customer_who_cancels_after_the_end_of_a_short_job_pays_for_it(grid):
    number, slurm_job_id = start_in_slurm(grid)
    grid.clock.advance(20)
    grid.slurm.end(slurm_job_id)
    grid.step()
    grid.ledger.cancel(number)
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == billing_oracle.cost(20, job.price_per_min)


def test_the_settlement_of_a_job_that_was_claimed_again_waits_for_the_new_claim(grid):
    number, slurm_job_id = start_in_slurm(grid)
    claim_block = grid.ledger.job(number).state_block
    grid.run_steps(CONFIRMATIONS - 2)
    grid.slurm.end(slurm_job_id)
    remove_claim(grid, number, claim_block)
    grid.step()
    new_claim_block = grid.ledger.job(number).state_block
    assert new_claim_block > claim_block
    while grid.ledger.head().number < new_claim_block + CONFIRMATIONS:
        grid.step()
        assert grid.state_of(number) in {JobState.SCHEDULED, JobState.RUNNING}
    grid.run_steps(1)

    assert grid.state_of(number) is JobState.FINISHED


def test_a_supervisor_that_reads_the_chain_again_remembers_only_claims_of_open_jobs(
    grid, monkeypatch
):
    grid.request_job()
    grid.request_job()
    grid.finish_jobs()
    open_job = grid.ledger.job(grid.request_job())
    grid.step()
    grid.cursor.saved.clear()
    grid.start_supervisor()

    def fail(_head, _open_keys):
        raise ChainUnavailable("could not reach the chain", detail="connection refused")

    monkeypatch.setattr(grid.supervisor, "_gather_snapshot", fail)
    with pytest.raises(ChainUnavailable):
        grid.tick()

    assert grid.supervisor._memory.claim_blocks.keys() == {open_job.id}


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("has_ended", [False, True])
def test_a_start_that_a_reorg_removes_with_its_claim_is_reported_again(
    grid, is_restarted, has_ended
):
    number, slurm_job_id = start_in_slurm(grid)
    claim_block = grid.ledger.job(number).state_block
    grid.step()
    assert grid.state_of(number) is JobState.RUNNING
    if has_ended:
        grid.slurm.end(slurm_job_id)
    remove_claim(grid, number, claim_block)
    if is_restarted:
        grid.start_supervisor()
    grid.run_steps(3)
    assert grid.state_of(number) is JobState.RUNNING
    grid.finish_jobs()

    assert grid.state_of(number) is JobState.FINISHED
    (attempt,) = grid.slurm.attempts()
    assert attempt.state == "COMPLETED"
    assert_nothing_counts_as_a_failure(grid)


def assert_nothing_counts_as_a_failure(grid):
    kinds = {entry.kind for entry in grid.journal.stored}
    failures = {EntryKind.SUBMIT_REJECTED, EntryKind.CANCELLED_BY_US, EntryKind.ABSENT}
    assert kinds.isdisjoint(failures)
    assert len(grid.slurm.submissions) == 1


def test_a_start_of_a_job_whose_claim_is_missing_is_not_planned(grid):
    number, _ = start_in_slurm(grid)
    remove_claim(grid, number, grid.ledger.job(number).state_block)
    grid.tick()

    assert not any(isinstance(entry.call, SetRunning) for entry in grid.outbox.entries())


def test_a_start_that_the_contract_skipped_is_planned_once_more_after_its_rejection(grid):
    """The sender rejects the call when the block that skipped it is final."""
    number, _ = start_in_slurm(grid)
    grid.tick()
    (start,) = open_starts(grid)
    set_entry_state(grid, start, SendState.MINED)
    with capture_logs() as log_events:
        for _ in range(CONFIRMATIONS):
            grid.tick()
    assert "call_queued" not in {log_event["event"] for log_event in log_events}
    assert [entry.id for entry in open_starts(grid)] == [start.id]

    set_entry_state(grid, start, SendState.REJECTED)
    grid.tick()
    assert len(open_starts(grid)) == 1
    grid.ledger.deliver(grid.outbox, PROVIDER)

    assert grid.state_of(number) is JobState.RUNNING
    assert_nothing_counts_as_a_failure(grid)


def open_starts(grid):
    return [entry for entry in grid.outbox.open_entries() if isinstance(entry.call, SetRunning)]


def set_entry_state(grid, entry, state):
    change = EntryChange(entry_id=entry.id, state=state)
    grid.outbox.record("", changes=[change], withdrawn_nonces=(), closed_nonces=())
