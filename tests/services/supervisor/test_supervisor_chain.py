# SPDX-License-Identifier: Apache-2.0
"""The supervisor on a chain that is reorganised or replaced, or whose servers disagree."""

from dataclasses import replace

import pytest
from tests.services.supervisor.supervisor_setup import CONFIRMATIONS, CUSTOMER, US, SupervisorSetup

from gridstead.domain.jobs.lifecycle import JobState

OTHER = "0x" + "44" * 20


@pytest.fixture
def grid():
    return SupervisorSetup()


def test_a_reorg_that_gives_the_number_to_another_customer_settles_only_their_job(grid):
    number = grid.request()
    grid.steps(2)
    grid.ledger.reorg(5)
    assert grid.request(OTHER) == number
    grid.steps(10)
    grid.finish()

    job = grid.ledger.job(number)
    assert (job.customer, job.state) == (OTHER, JobState.FINISHED)
    mine, theirs = grid.slurm.attempts()
    assert (mine.user, mine.state) == (CUSTOMER, "CANCELLED")
    assert (theirs.user, theirs.state) == (OTHER, "COMPLETED")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_settlement_that_a_deep_reorg_reverts_is_sent_again_and_paid_once(grid, restarted):
    """The job was final and forgotten before the reorg."""
    number, slurm_job_id = grid.running()
    grid.clock.advance(30)
    grid.slurm.end(slurm_job_id)
    grid.steps(3 * CONFIRMATIONS)
    before = grid.ledger.job(number)
    assert grid.journal.open_entries() == ()

    grid.ledger.reorg(grid.ledger.head().number - before.state_block + 1)
    assert grid.state(number) is JobState.RUNNING
    if restarted:
        grid.start()
    grid.steps(3 * CONFIRMATIONS)

    job = grid.ledger.job(number)
    assert (job.state, job.final_cost) == (JobState.FINISHED, before.final_cost)
    assert grid.ledger.balance(CUSTOMER) == job.escrow - job.final_cost
    assert len(grid.slurm.submissions) == 1
    assert grid.journal.open_entries() == ()


def test_no_attempt_of_an_old_chain_is_adopted_on_a_new_chain(grid):
    number, slurm_job_id = grid.running()
    grid.slurm.end(slurm_job_id)
    grid.steps(20)
    fresh = SupervisorSetup()
    fresh.clock = grid.clock
    fresh.ledger.clock = grid.clock
    fresh.ledger.reorg(1)
    fresh.ledger.mine()
    fresh.ledger.add_provider(US)
    fresh.slurm = grid.slurm
    fresh.start()
    new_number = fresh.request(script="another-script")
    fresh.steps(3)

    assert new_number == number
    assert len(grid.slurm.submissions) == 2


def test_a_claim_is_not_forgotten_when_another_server_of_the_endpoint_lags(grid, monkeypatch):
    grid.request()
    grid.step()
    head, calls = grid.ledger.head, []

    def lagging_from_the_second_answer_on():
        calls.append(None)
        return head() if len(calls) == 1 else grid.ledger.block(head().number - 3)

    monkeypatch.setattr(grid.ledger, "head", lagging_from_the_second_answer_on)
    grid.supervisor.tick()
    monkeypatch.undo()
    grid.steps(2)

    assert len(grid.slurm.submissions) == 1


def test_a_claim_is_not_forgotten_when_another_server_is_on_another_fork(grid, monkeypatch):
    grid.request()
    grid.step()
    ledger, calls = grid.ledger, []
    head, state_at = ledger.head, ledger._at

    def forked_from_the_second_answer_on():
        calls.append(None)
        return head() if len(calls) == 1 else replace(head(), hash="another fork")

    def state_of_its_fork(block):
        if block.hash == "another fork":
            block = ledger.block(block.number - 3)
        return state_at(block)

    monkeypatch.setattr(ledger, "head", forked_from_the_second_answer_on)
    monkeypatch.setattr(ledger, "_at", state_of_its_fork)
    grid.supervisor.tick()
    monkeypatch.undo()
    grid.steps(2)

    assert len(grid.slurm.submissions) == 1


def test_an_attempt_is_not_cancelled_while_the_node_syncs_up_to_the_claim(grid, monkeypatch):
    number, slurm_job_id = grid.running()
    for block in [grid.ledger.block(height) for height in range(grid.ledger.head().number)]:
        monkeypatch.setattr(grid.ledger, "head", lambda block=block: block)
        grid.supervisor.tick()
        (attempt,) = grid.slurm.attempts(where=lambda attempt: attempt.is_alive)
        assert attempt.slurm_job_id == slurm_job_id
    monkeypatch.undo()
    grid.finish()

    assert grid.state(number) is JobState.FINISHED


def test_a_job_whose_claim_a_reorg_reverts_for_a_moment_runs_once_and_is_paid(grid):
    number = grid.request()
    grid.steps(2)
    grid.slurm.start(grid.slurm.attempts()[0].slurm_job_id)
    grid.ledger.reorg(1)
    grid.steps(2)
    if grid.state(number) is JobState.META_SCHEDULED:
        grid.ledger.claim(US)
    grid.steps(3)
    grid.finish()

    assert grid.state(number) is JobState.FINISHED
    assert len(grid.slurm.attempts()) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_an_attempt_cancelled_without_a_claim_does_not_end_the_job_claimed_again(grid, restarted):
    number = grid.request()
    grid.steps(2)
    grid.slurm.start(grid.slurm.attempts()[0].slurm_job_id)
    grid.ledger.reorg(grid.ledger.head().number - grid.ledger.job(number).state_block + 1)
    assert grid.state(number) is JobState.META_SCHEDULED
    for _ in range(CONFIRMATIONS + 3):
        grid.tick()
        grid.ledger.mine()
        grid.clock.advance(1)
    assert [attempt.state for attempt in grid.slurm.attempts()] == ["CANCELLED"]
    assert grid.journal.open_entries() == ()

    if restarted:
        grid.start()
    grid.steps()
    grid.finish()

    assert grid.state(number) is JobState.FINISHED
