# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler expires overdue jobs, on fakes.

The fake contracts reject a call that comes too early.
"""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests import billing_oracle
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.billing import Prices, paid_seconds_ceil
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import MARGIN_BLOCKS, MARGIN_S, Timeouts
from gridstead.domain.transactions.calls import Expire, Match
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import InvalidInput
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler

OPERATOR = "0x" + "00" * 20
US, OTHER = "0x" + "11" * 20, "0x" + "22" * 20
CUSTOMER = "0x" + "33" * 20
DEAR = Prices(gpu_per_min=10**19, cpu_per_min=10**18, memory_mb_per_min=10**15)
CLAIM_BLOCKS = 10


class ExpirySetup:
    """Contracts in memory, a meta-scheduler, and a provider that the test controls."""

    def __init__(self):
        self.ledger = FakeLedger(FakeClock())
        self.outbox = MemoryOutbox()
        self.start()

    def start(self):
        """Start the service as a new process with the same chain and outbox."""
        self.service = MetaScheduler(
            self.ledger, Follower(self.ledger, MemoryCursor()), self.outbox, confirmations=2
        )

    def tick(self):
        """Tick the service, send its calls, and return the calls."""
        self.service.tick()
        calls = [entry.call for entry in self.outbox.open_entries()]
        if calls:
            self.ledger.deliver(self.outbox, OPERATOR)
        return calls

    def let_match_expire(self):
        """Mine more blocks than a match may wait, and tick."""
        self.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS + 1)
        return self.tick()

    def mine_at(self, timestamp):
        """Mine a block with this time."""
        self.ledger.clock.seconds = timestamp
        assert self.ledger.mine().timestamp == timestamp

    def rejected(self):
        return [entry for entry in self.outbox.entries() if entry.state is SendState.REJECTED]


@pytest.fixture
def grid():
    return ExpirySetup()


@pytest.fixture
def job(grid):
    """A job that is matched to the only provider."""
    grid.ledger.add_provider(US)
    job = grid.ledger.request(CUSTOMER)
    grid.tick()
    assert state(grid, job) is JobState.META_SCHEDULED
    return job


def state(grid, job):
    return grid.ledger.job(job.id.number).state


def expire(job):
    return Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)


def test_an_unclaimed_match_expires_after_the_claim_timeout_and_not_before(grid, job):
    matched = grid.ledger.job(job.id.number)
    last = matched.state_block + CLAIM_BLOCKS + MARGIN_BLOCKS
    grid.ledger.mine(last - grid.ledger.head().number)
    assert grid.tick() == []
    grid.ledger.mine()

    assert grid.tick() == [expire(matched)]
    assert state(grid, job) is JobState.PENDING
    assert grid.rejected() == []


def test_an_expired_match_goes_to_another_provider(grid, job):
    grid.ledger.add_provider(OTHER, prices=DEAR)
    grid.let_match_expire()
    grid.tick()

    assert grid.ledger.job(job.id.number).provider == OTHER


def test_an_expired_match_goes_to_the_only_provider_again(grid, job):
    grid.let_match_expire()
    grid.tick()
    assert state(grid, job) is JobState.META_SCHEDULED
    grid.ledger.claim(US)

    assert grid.let_match_expire() == []
    assert state(grid, job) is JobState.SCHEDULED


def test_a_provider_that_never_claims_is_matched_less_and_less_often(grid, job):
    grid.let_match_expire()
    grid.tick()
    grid.let_match_expire()
    expired_at = grid.ledger.head().number
    assert grid.tick() == []
    assert "did not claim it in time" in grid.service.pending()[job.id]

    grid.ledger.mine(CLAIM_BLOCKS - 1)
    assert grid.tick() == []
    grid.ledger.mine()

    assert [type(call) for call in grid.tick()] == [Match]
    assert grid.ledger.job(job.id.number).state_block == expired_at + CLAIM_BLOCKS + 1


def test_a_provider_away_for_a_thousand_blocks_costs_few_transactions(grid, job):
    calls = []
    for _ in range(1000):
        calls += grid.tick()
        grid.ledger.mine()

    assert 10 < len(calls) < 30
    assert grid.rejected() == []


def test_claim_timeouts_are_known_after_a_restart(grid, job):
    grid.ledger.add_provider(OTHER, prices=DEAR)
    grid.let_match_expire()
    grid.start()
    grid.tick()

    assert grid.ledger.job(job.id.number).provider == OTHER


def test_a_match_does_not_expire_while_its_provider_claims_other_jobs(grid):
    grid.ledger.add_provider(US)
    jobs = [grid.ledger.request(CUSTOMER) for _ in range(5)]
    grid.tick()
    for _ in jobs:
        grid.ledger.mine(CLAIM_BLOCKS)
        assert grid.tick() == []
        grid.ledger.claim(US, limit=1)

    assert {state(grid, job) for job in jobs} == {JobState.SCHEDULED}


def test_a_claimed_job_that_never_starts_is_refunded_in_full(grid, job):
    grid.ledger.claim(US)
    claimed_at = grid.ledger.head().timestamp
    grid.mine_at(claimed_at + grid.ledger.constants.start_s + MARGIN_S)
    assert grid.tick() == []
    grid.mine_at(grid.ledger.head().timestamp + 1)
    grid.tick()

    assert state(grid, job) is JobState.PANICKED
    assert grid.ledger.balance(CUSTOMER) == job.escrow
    assert grid.rejected() == []


def test_a_run_that_is_never_settled_is_refunded_in_full(grid, job):
    grid.ledger.claim(US)
    run = grid.ledger.run(job.id.number)
    paid_s = paid_seconds_ceil(run.escrow, run.price_per_min)
    grid.mine_at(run.started_at + paid_s + grid.ledger.constants.settle_grace_s + MARGIN_S)
    assert grid.tick() == []
    grid.mine_at(grid.ledger.head().timestamp + 1)
    grid.tick()

    assert state(grid, job) is JobState.PANICKED
    assert (grid.ledger.balance(CUSTOMER), grid.ledger.balance(US)) == (job.escrow, 0)


def test_a_provider_that_returns_within_the_grace_period_is_paid(grid, job):
    grid.ledger.claim(US)
    run = grid.ledger.run(job.id.number)
    paid_s = paid_seconds_ceil(run.escrow, run.price_per_min)
    grid.mine_at(run.started_at + paid_s + grid.ledger.constants.settle_grace_s)
    assert grid.tick() == []
    grid.ledger.settle(job.id.number, seconds=60)

    assert state(grid, job) is JobState.FINISHED
    cost = billing_oracle.cost(60, run.price_per_min)
    assert grid.ledger.balance(US) == billing_oracle.earned(cost)


def test_no_expiry_of_claimed_jobs_is_requested_from_contracts_without_it(grid, job):
    grid.ledger.constants = Timeouts(claim_blocks=CLAIM_BLOCKS)
    grid.ledger.claim(US)
    grid.ledger.clock.advance(10**9)
    grid.ledger.mine()
    assert grid.tick() == []
    grid.ledger.run(job.id.number)
    grid.ledger.clock.advance(10**9)
    grid.ledger.mine()

    assert grid.tick() == []


def test_an_expiry_is_logged_and_requested_once_while_the_call_is_pending(grid, job):
    grid.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS + 1)
    with capture_logs() as logs:
        for _ in range(3):
            grid.service.tick()
            grid.ledger.mine()

    requested = [entry["job_id"] for entry in logs if entry["event"] == "expiry_requested"]
    assert requested == [job.id]
    assert len(grid.outbox.open_entries()) == 1


def test_a_call_that_cannot_be_stored_does_not_delay_other_calls(grid, job):
    class Outbox(MemoryOutbox):
        def put(self, key, call):
            if call.job_key == job.job_key:
                raise InvalidInput("cannot be stored")
            super().put(key, call)

    other = grid.ledger.request(CUSTOMER)
    grid.tick()
    grid.outbox = Outbox()
    grid.start()
    grid.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS)
    with capture_logs() as logs:
        calls = grid.let_match_expire()

    assert [call.job_key for call in calls] == [other.job_key]
    failures = [entry["reason"] for entry in logs if entry["event"] == "expiry_failed"]
    assert failures == ["cannot be stored"]


def test_a_claim_whose_block_is_missing_does_not_expire(grid, job):
    grid.ledger.claim(US)
    grid.ledger.clock.advance(10**9)
    grid.ledger.mine()
    block = grid.ledger.block
    claimed_in = grid.ledger.job(job.id.number).state_block
    grid.ledger.block = lambda number: None if number == claimed_in else block(number)

    assert grid.tick() == []


def test_the_time_of_a_claim_is_read_once(grid, job):
    grid.ledger.claim(US)
    claimed_in = grid.ledger.job(job.id.number).state_block
    grid.tick()
    grid.ledger.mine()
    grid.tick()  # from here on, the follower does not read that block any more
    block, read = grid.ledger.block, []

    def recording_block(number):
        read.append(number)
        return block(number)

    grid.ledger.block = recording_block
    for _ in range(3):
        grid.ledger.mine()
        grid.tick()

    assert claimed_in not in read


def test_a_job_that_ended_is_not_read_again(grid, job):
    grid.ledger.cancel(job.id.number)
    other = grid.ledger.request(CUSTOMER)
    grid.ledger.mine(2)
    grid.tick()
    jobs, read = grid.ledger.jobs, []

    def recording_jobs(job_ids, *, at_block):
        read.extend(job_ids)
        return jobs(job_ids, at_block=at_block)

    grid.ledger.jobs = recording_jobs
    grid.ledger.mine()
    grid.tick()

    assert read == [other.id]
