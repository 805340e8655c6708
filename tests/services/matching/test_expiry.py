# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler expires overdue jobs.

The fake contracts reject the expiry of a job that is not overdue.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests import billing_oracle
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.billing import Prices, paid_seconds_ceil
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import (
    MARGIN_BLOCKS,
    MARGIN_S,
    ClaimBlocks,
    Timeouts,
    expiry,
)
from gridstead.domain.transactions.calls import Expire, Match
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import InvalidInput
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.expiries import MAX_OLD_LIMITS, Expiries
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

OPERATOR = "0x" + "00" * 20
PROVIDER = "0x" + "11" * 20
OTHER_PROVIDER = "0x" + "22" * 20
CUSTOMER = "0x" + "33" * 20
HIGH_PRICES = Prices(gpu_per_min=10**19, cpu_per_min=10**18, memory_mb_per_min=10**15)
CLAIM_BLOCKS = 10


class ExpirySetup:
    """A meta-scheduler with fake contracts and an outbox in memory."""

    def __init__(self):
        self.ledger = FakeLedger(FakeClock())
        self.outbox = MemoryOutbox()
        self.start_service()

    def start_service(self):
        """Start a new meta-scheduler with the same chain and outbox, as after a restart."""
        self.service = MetaScheduler(
            self.ledger,
            Follower(self.ledger, MemoryCursor()),
            self.outbox,
            confirmations=2,
            skipped_matches=SkippedMatches(self.ledger.clock),
        )

    def tick(self):
        """Run one tick, deliver its calls to the contracts, and return the calls."""
        self.service.tick()
        calls = [entry.call for entry in self.outbox.open_entries()]
        if calls:
            self.ledger.deliver(self.outbox, OPERATOR)
        return calls

    def expire_match(self):
        """Mine blocks until a match is overdue, and run one tick."""
        self.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS + 1)
        return self.tick()

    def mine_at(self, timestamp):
        """Mine a block with this timestamp."""
        self.ledger.clock.seconds = timestamp
        assert self.ledger.mine().timestamp == timestamp

    def rejected_entries(self):
        """Return the entries of the outbox whose calls the contracts rejected."""
        return [entry for entry in self.outbox.entries() if entry.state is SendState.REJECTED]

    def state_of(self, job):
        """Return the state of a job on the chain."""
        return self.ledger.job(job.id.number).state

    def provider_of(self, job):
        """Return the provider of a job on the chain."""
        return self.ledger.job(job.id.number).provider


@pytest.fixture
def grid():
    return ExpirySetup()


@pytest.fixture
def job(grid):
    """Return a job that is matched to the only provider."""
    grid.ledger.add_provider(PROVIDER)
    job = grid.ledger.request(CUSTOMER)
    grid.tick()
    assert grid.state_of(job) is JobState.META_SCHEDULED
    return job


def expiry_of(job):
    """Return the call that expires a job in its current state."""
    return Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)


def test_an_unclaimed_match_expires_only_after_the_claim_timeout(grid, job):
    matched_job = grid.ledger.job(job.id.number)
    last_block = matched_job.state_block + CLAIM_BLOCKS + MARGIN_BLOCKS
    grid.ledger.mine(last_block - grid.ledger.head().number)
    assert grid.tick() == []
    grid.ledger.mine()

    assert grid.tick() == [expiry_of(matched_job)]
    assert grid.state_of(job) is JobState.PENDING
    assert grid.rejected_entries() == []


def test_an_expired_match_goes_to_another_provider(grid, job):
    grid.ledger.add_provider(OTHER_PROVIDER, prices=HIGH_PRICES)
    grid.expire_match()
    grid.tick()

    assert grid.provider_of(job) == OTHER_PROVIDER


def test_an_expired_match_goes_to_the_only_provider_again(grid, job):
    grid.expire_match()
    grid.tick()
    assert grid.state_of(job) is JobState.META_SCHEDULED
    grid.ledger.claim(PROVIDER)

    assert grid.expire_match() == []
    assert grid.state_of(job) is JobState.SCHEDULED


def test_a_provider_is_not_matched_for_some_blocks_after_its_second_claim_timeout(grid, job):
    grid.expire_match()
    grid.tick()
    grid.expire_match()
    expiry_block = grid.ledger.head().number
    assert grid.tick() == []
    assert "did not claim it in time" in grid.service.pending()[job.id]

    grid.ledger.mine(CLAIM_BLOCKS - 1)
    assert grid.tick() == []
    grid.ledger.mine()

    assert [type(call) for call in grid.tick()] == [Match]
    assert grid.ledger.job(job.id.number).state_block == expiry_block + CLAIM_BLOCKS + 1


def test_a_provider_that_is_down_for_a_thousand_blocks_causes_few_transactions(grid, job):
    calls = []
    for _ in range(1000):
        calls += grid.tick()
        grid.ledger.mine()

    # After each claim timeout, the provider is excluded for more blocks than before.
    assert 10 < len(calls) < 30
    assert grid.rejected_entries() == []


def test_claim_timeouts_are_read_again_after_a_restart(grid, job):
    grid.ledger.add_provider(OTHER_PROVIDER, prices=HIGH_PRICES)
    grid.expire_match()
    grid.start_service()
    grid.tick()

    assert grid.provider_of(job) == OTHER_PROVIDER


def test_a_match_does_not_expire_while_its_provider_claims_other_jobs(grid):
    grid.ledger.add_provider(PROVIDER)
    jobs = [grid.ledger.request(CUSTOMER) for _ in range(5)]
    grid.tick()
    for _ in range(5):
        grid.ledger.mine(CLAIM_BLOCKS)
        assert grid.tick() == []
        grid.ledger.claim(PROVIDER, limit=1)

    for job in jobs:
        assert grid.state_of(job) is JobState.SCHEDULED


def test_a_claim_that_a_reorg_removed_does_not_delay_the_expiry_of_a_match(grid, job):
    matched_job = grid.ledger.job(job.id.number)
    other_job = grid.ledger.request(CUSTOMER)
    grid.tick()
    grid.ledger.mine(CLAIM_BLOCKS - 5)
    grid.tick()
    grid.ledger.claim(PROVIDER, limit=1)
    assert grid.tick() == []

    grid.ledger.reorg(1)
    last_block = matched_job.state_block + CLAIM_BLOCKS + MARGIN_BLOCKS
    grid.ledger.mine(last_block + 1 - grid.ledger.head().number)

    assert grid.tick() == [expiry_of(matched_job)]
    assert grid.state_of(other_job) is JobState.META_SCHEDULED


def test_a_claimed_job_that_never_starts_is_refunded_in_full(grid, job):
    grid.ledger.claim(PROVIDER)
    claimed_at = grid.ledger.head().timestamp
    grid.mine_at(claimed_at + grid.ledger.constants.start_s + MARGIN_S)
    assert grid.tick() == []
    grid.mine_at(grid.ledger.head().timestamp + 1)
    grid.tick()

    assert grid.state_of(job) is JobState.PANICKED
    assert grid.ledger.balance(CUSTOMER) == job.escrow
    assert grid.rejected_entries() == []


def test_a_request_to_cancel_that_its_provider_ignores_is_refunded_in_full(grid, job):
    grid.ledger.constants = replace(grid.ledger.constants, start_s=30 * 86_400)
    grid.ledger.claim(PROVIDER)
    grid.ledger.cancel(job.id.number)
    requested_at = grid.ledger.job(job.id.number).cancel_requested_at
    grid.mine_at(requested_at + grid.ledger.constants.settle_grace_s + MARGIN_S)
    assert grid.tick() == []
    grid.mine_at(grid.ledger.head().timestamp + 1)
    grid.tick()

    assert grid.state_of(job) is JobState.CANCELLED
    assert grid.ledger.balance(CUSTOMER) == job.escrow
    assert grid.rejected_entries() == []


def test_a_run_that_is_never_settled_is_refunded_in_full(grid, job):
    grid.ledger.claim(PROVIDER)
    running_job = grid.ledger.run(job.id.number)
    paid_s = paid_seconds_ceil(running_job.escrow, running_job.price_per_min)
    grid.mine_at(running_job.started_at + paid_s + grid.ledger.constants.settle_grace_s + MARGIN_S)
    assert grid.tick() == []
    grid.mine_at(grid.ledger.head().timestamp + 1)
    grid.tick()

    assert grid.state_of(job) is JobState.PANICKED
    assert grid.ledger.balance(CUSTOMER) == job.escrow
    assert grid.ledger.balance(PROVIDER) == 0


def test_a_provider_that_returns_within_the_grace_period_is_paid(grid, job):
    grid.ledger.claim(PROVIDER)
    running_job = grid.ledger.run(job.id.number)
    paid_s = paid_seconds_ceil(running_job.escrow, running_job.price_per_min)
    grid.mine_at(running_job.started_at + paid_s + grid.ledger.constants.settle_grace_s)
    assert grid.tick() == []
    grid.ledger.settle(job.id.number, seconds=60)

    assert grid.state_of(job) is JobState.FINISHED
    cost = billing_oracle.cost(60, running_job.price_per_min)
    assert grid.ledger.balance(PROVIDER) == billing_oracle.earned(cost)


def test_claimed_jobs_do_not_expire_if_the_contracts_have_no_timeouts_for_them(grid, job):
    grid.ledger.constants = Timeouts(claim_blocks=CLAIM_BLOCKS)
    grid.ledger.claim(PROVIDER)
    grid.ledger.clock.advance(10**9)
    grid.ledger.mine()
    assert grid.tick() == []
    grid.ledger.run(job.id.number)
    grid.ledger.clock.advance(10**9)
    grid.ledger.mine()

    assert grid.tick() == []


def test_an_expiry_is_requested_once_while_its_call_is_pending(grid, job):
    grid.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS + 1)
    with capture_logs() as logs:
        for _ in range(3):
            grid.service.tick()
            grid.ledger.mine()

    logged_ids = [entry["job_id"] for entry in logs if entry["event"] == "expiry_requested"]
    assert logged_ids == [job.id]
    assert len(grid.outbox.open_entries()) == 1


def test_a_call_that_cannot_be_stored_does_not_delay_other_calls(grid, job):
    class FailingOutbox(MemoryOutbox):
        def put(self, key, call):
            if call.job_key == job.job_key:
                raise InvalidInput("cannot be stored")
            super().put(key, call)

    other_job = grid.ledger.request(CUSTOMER)
    grid.tick()
    grid.outbox = FailingOutbox()
    grid.start_service()
    grid.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS)
    with capture_logs() as logs:
        calls = grid.expire_match()

    assert [call.job_key for call in calls] == [other_job.job_key]
    reasons = [entry["reason"] for entry in logs if entry["event"] == "expiry_failed"]
    assert reasons == ["cannot be stored"]


def test_a_claimed_job_does_not_expire_while_the_block_of_its_claim_is_missing(grid, job):
    grid.ledger.claim(PROVIDER)
    grid.ledger.clock.advance(10**9)
    grid.ledger.mine()
    read_block = grid.ledger.block
    claim_block = grid.ledger.job(job.id.number).state_block

    def read_other_blocks(number):
        return None if number == claim_block else read_block(number)

    grid.ledger.block = read_other_blocks

    assert grid.tick() == []


def test_the_time_of_a_claim_is_read_once(grid, job):
    grid.ledger.claim(PROVIDER)
    claim_block = grid.ledger.job(job.id.number).state_block
    grid.tick()
    grid.ledger.mine()
    grid.tick()  # After this tick, the follower does not read the block of the claim again.
    read_block = grid.ledger.block
    read_numbers = []

    def read_block_and_note(number):
        read_numbers.append(number)
        return read_block(number)

    grid.ledger.block = read_block_and_note
    for _ in range(3):
        grid.ledger.mine()
        grid.tick()

    assert claim_block not in read_numbers


def test_limits_of_old_values_of_a_job_do_not_accumulate(grid, job):
    grid.ledger.claim(PROVIDER)
    running_job = grid.ledger.run(job.id.number)
    expiries = Expiries(grid.ledger, grid.outbox)
    head = grid.ledger.head()
    claim_blocks = ClaimBlocks(2)
    limit_counts = []
    for top_up in range(3 * MAX_OLD_LIMITS):
        running_job = replace(running_job, escrow=running_job.escrow + top_up)
        expiries.set_job(job.id, running_job)
        expiries.request_due(head, grid.ledger.constants, claim_blocks)
        limit_counts.append(len(expiries._limits_by_time))

    # Two limits are allowed per job. The last limit was added after the check.
    assert max(limit_counts) == MAX_OLD_LIMITS + 2 + 1
    assert grid.outbox.open_entries() == ()

    limit = expiry(running_job, grid.ledger.constants, claimed_at=None)
    end = replace(head, timestamp=limit + MARGIN_S + 1)
    expiries.request_due(end, grid.ledger.constants, claim_blocks)
    assert [entry.call for entry in grid.outbox.open_entries()] == [expiry_of(running_job)]


def test_an_expiry_is_requested_once_if_the_limits_are_built_again(grid, job):
    matched_job = grid.ledger.job(job.id.number)
    other_job = replace(matched_job, id=grid.ledger.job_id(1000), state_block=10**6)
    expiries = Expiries(grid.ledger, grid.outbox)
    grid.ledger.mine(CLAIM_BLOCKS + MARGIN_BLOCKS + 1)
    expiries.set_job(job.id, matched_job)
    with capture_logs() as logs:
        for escrow in range(3 * MAX_OLD_LIMITS):
            expiries.set_job(other_job.id, replace(other_job, escrow=escrow))
            expiries.request_due(grid.ledger.head(), grid.ledger.constants, ClaimBlocks(2))

    assert len(expiries._limits_by_block) < 2 * MAX_OLD_LIMITS
    assert [entry["job_id"] for entry in logs] == [job.id]


def test_a_job_that_ended_is_not_read_again(grid, job):
    grid.ledger.cancel(job.id.number)
    other_job = grid.ledger.request(CUSTOMER)
    grid.ledger.mine(2)
    grid.tick()
    read_jobs = grid.ledger.jobs
    read_ids = []

    def read_jobs_and_note(job_ids, *, at_block):
        read_ids.extend(job_ids)
        return read_jobs(job_ids, at_block=at_block)

    grid.ledger.jobs = read_jobs_and_note
    grid.ledger.mine()
    grid.tick()

    assert read_ids == [other_job.id]
