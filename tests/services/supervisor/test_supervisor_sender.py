# SPDX-License-Identifier: Apache-2.0
"""The supervisor and the sender of its wallet together, on a chain with reorgs."""

import pytest
from tests import billing_oracle
from tests.fakes.account import FakeAccount
from tests.services.supervisor.supervisor_setup import CONFIRMATIONS, PROVIDER, SupervisorSetup

from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.transactions.calls import Refuse, SetRunning, Settle
from gridstead.domain.transactions.outbox import SendState
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.services.transactions.sender import Sender, SenderPorts

RUN_S = 10


class SenderSetup(SupervisorSetup):
    """A supervisor whose calls a real sender sends to the chain."""

    def __init__(self):
        super().__init__()
        self.start_sender()

    def start_sender(self):
        """Start a new sender with the stored state, as a restart of the process does."""
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=FakeAccount(self.ledger, PROVIDER),
            transactions=self.outbox,
        )
        policy = DispatchPolicy(confirmations=CONFIRMATIONS, resend_after_s=1)
        self.sender = Sender(ports, policy)

    def step(self, seconds=1):
        self.tick()
        self.sender.tick()
        self.ledger.mine()
        self.clock.advance(seconds)
        self.sync_clock()

    def claim_block(self):
        """Return the block with the newest claim."""
        events = self.ledger.events(first=0, end=self.ledger.head())
        return max(event.block for event in events if event.kind is ChainEventKind.JOB_CLAIMED)

    def states(self, call_type):
        """Return the states of the outbox entries with calls of a type."""
        entries = self.outbox.entries()
        return [entry.state for entry in entries if isinstance(entry.call, call_type)]


@pytest.mark.parametrize("steps", range(1, CONFIRMATIONS))
def test_a_job_is_not_refused_if_a_reorg_removes_its_request_to_cancel(steps):
    """A refusal would exclude the provider from the job, whose customer waits for it."""
    grid = SenderSetup()
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    height = grid.ledger.head().number
    grid.ledger.cancel(number)
    grid.run_steps(steps)
    grid.ledger.reorg(grid.ledger.head().number - height)
    grid.run_steps(3 * CONFIRMATIONS)

    assert grid.states(Refuse) == []
    assert grid.state_of(number) is JobState.SCHEDULED
    assert len(grid.live_attempts()) == 1


@pytest.mark.parametrize("steps", range(1, CONFIRMATIONS))
def test_a_reorg_drops_the_limit_that_a_request_sets_to_a_bill(steps):
    """The job ended by itself while its request was not confirmed."""
    grid = SenderSetup()
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    (attempt,) = grid.slurm.attempts()
    grid.slurm.start(attempt.slurm_job_id)
    height = grid.ledger.head().number
    grid.ledger.cancel(number)
    grid.clock.advance(RUN_S)
    grid.slurm.end(attempt.slurm_job_id)
    grid.run_steps(steps)
    grid.ledger.reorg(grid.ledger.head().number - height)
    assert not grid.ledger.job(number).cancel_requested
    grid.run_steps(4 * CONFIRMATIONS)

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.final_cost == billing_oracle.cost(RUN_S, job.price_per_min)
    assert grid.states(Settle) == [SendState.FINAL]


def test_a_job_is_refused_after_its_request_to_cancel_is_confirmed():
    grid = SenderSetup()
    number = grid.request_job()
    grid.run_steps(2 * CONFIRMATIONS)
    request_block = grid.ledger.head().number + 1
    grid.ledger.cancel(number)
    grid.run_steps(4 * CONFIRMATIONS)

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert job.state_block > request_block + CONFIRMATIONS
    assert grid.states(Refuse) == [SendState.FINAL]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("removed_blocks", range(6))
def test_a_short_job_is_paid_once_if_a_reorg_removes_its_start_or_claim(
    removed_blocks, is_restarted
):
    grid = SenderSetup()
    number = grid.request_job()
    grid.run_steps(3)
    (attempt,) = grid.slurm.attempts()
    grid.slurm.start(attempt.slurm_job_id)
    grid.step(RUN_S)
    grid.slurm.end(attempt.slurm_job_id)
    grid.step()
    assert grid.state_of(number) is JobState.RUNNING
    if removed_blocks:
        grid.ledger.reorg(removed_blocks)
    if is_restarted:
        grid.start_supervisor()
        grid.start_sender()
    grid.run_steps(4 * CONFIRMATIONS)

    job = grid.ledger.job(number)
    assert job.state is JobState.FINISHED
    assert job.state_block > grid.claim_block() + CONFIRMATIONS
    assert grid.states(SetRunning) == [SendState.FINAL]
    assert grid.states(Settle) == [SendState.FINAL]
    # A claim that is mined again is later than the start in Slurm, and the bill is then lower.
    assert job.final_cost <= billing_oracle.cost(RUN_S, job.price_per_min)
    if not removed_blocks:
        assert job.final_cost == billing_oracle.cost(RUN_S, job.price_per_min)
