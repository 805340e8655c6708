# SPDX-License-Identifier: Apache-2.0
"""Timeouts of jobs: the meta-scheduler and its sender on real chains, over days of chain time."""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.adapters.chain.sender_setup import WalletSender, job, settlement

from gridstead.adapters.store.cursor import VolatileCursor
from gridstead.domain.jobs.billing import paid_seconds_ceil, paid_seconds_floor
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import MARGIN_BLOCKS, MARGIN_S, expiry
from gridstead.domain.transactions.calls import Expire, Match
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import TransactionReverted
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler


class Operator:
    """The operator's services on a real chain; a test makes the calls of the other accounts."""

    def __init__(self, chain, directory):
        self.grid = RealGrid(chain)
        self.grid.register()
        self.grid.approve()
        batch = self.grid.expected.batch
        self.wallet_sender = WalletSender(chain, chain.operator, directory, batch=batch)
        ledger = self.grid.ledger
        self.service = MetaScheduler(
            ledger, Follower(ledger, VolatileCursor()), self.wallet_sender.outbox, confirmations=1
        )
        self.timeouts = ledger.timeouts(at_block=ledger.head())

    def tick(self):
        """Run one tick of the service and its sender; return the calls."""
        self.service.tick()
        calls = [entry.call for entry in self.wallet_sender.outbox.open_entries()]
        self.wallet_sender.finish()
        assert {*self.wallet_sender.states()} <= {SendState.FINAL}, self.wallet_sender.reasons()
        return calls

    def matched(self):
        """Match a job, and return its number."""
        number = self.grid.request("script")
        (call,) = self.tick()
        assert isinstance(call, Match)
        return number

    def claimed(self):
        """Claim a job, and return its number and the time of the claim."""
        number = self.matched()
        self.grid.claim()
        return number, self.grid.ledger.head().timestamp

    def running(self):
        """Start a job, and return it."""
        number, claimed_at = self.claimed()
        self.grid.run(number, claimed_at)
        return job(self.grid, number)

    def until(self, timestamp):
        """Mine a block with this time."""
        anvil = self.grid.devnet.anvil
        anvil.rpc("evm_setNextBlockTimestamp", timestamp)
        anvil.mine()

    def until_block(self, number):
        """Mine up to that block."""
        self.grid.mine(number - self.grid.ledger.head().number)


@pytest.fixture
def operator(chain, tmp_path):
    services = Operator(chain, tmp_path)
    yield services
    services.wallet_sender.close()


@on_both
def test_unclaimed_match_expires_and_is_matched_again(operator):
    number = operator.matched()
    since = job(operator.grid, number).state_block
    operator.until_block(since + 10 + MARGIN_BLOCKS)
    assert operator.tick() == []
    operator.grid.mine()

    (call,) = operator.tick()

    assert isinstance(call, Expire)
    assert job(operator.grid, number).state is JobState.PENDING
    (again,) = operator.tick()
    assert (type(again), again.provider) == (Match, operator.grid.provider)
    operator.grid.claim()
    assert job(operator.grid, number).state is JobState.SCHEDULED


@on_both
def test_claim_before_the_expiry_keeps_the_job(operator):
    number = operator.matched()
    operator.until_block(job(operator.grid, number).state_block + 10 + MARGIN_BLOCKS + 1)
    operator.service.tick()
    operator.grid.claim()
    operator.wallet_sender.finish()

    assert operator.wallet_sender.states() == [SendState.FINAL, SendState.REJECTED]
    assert "has changed its state" in operator.wallet_sender.reasons()[1]
    assert job(operator.grid, number).state is JobState.SCHEDULED


def test_claimed_job_that_never_starts_is_refunded(operator):
    customer, provider = operator.grid.balances()
    number, claimed_at = operator.claimed()
    operator.until(claimed_at + operator.timeouts.start_s + MARGIN_S)
    assert operator.tick() == []
    operator.until(claimed_at + operator.timeouts.start_s + MARGIN_S + 1)

    operator.tick()

    assert job(operator.grid, number).state is JobState.PANICKED
    assert operator.grid.balances() == (customer, provider)


def test_running_job_that_is_never_settled_is_refunded(operator):
    customer, provider = operator.grid.balances()
    run = operator.running()
    end = (
        run.started_at
        + paid_seconds_ceil(run.escrow, run.price_per_min)
        + operator.timeouts.settle_grace_s
    )
    operator.until(end + MARGIN_S)
    assert operator.tick() == []
    operator.until(end + MARGIN_S + 1)

    operator.tick()

    assert job(operator.grid, run.id.number).state is JobState.PANICKED
    assert operator.grid.balances() == (customer, provider)


@on_both
def test_outage_within_the_grace_costs_a_provider_nothing(operator):
    _, before = operator.grid.balances()
    run = operator.running()
    seconds = paid_seconds_floor(run.escrow, run.price_per_min)
    grace_s = operator.timeouts.settle_grace_s or 7 * 86_400
    for days in range(1, grace_s // 86_400):
        operator.until(run.started_at + days * 86_400)
        assert operator.tick() == []
    operator.until(run.started_at + seconds + grace_s)
    assert operator.tick() == []
    call = settlement(run, seconds=seconds)
    operator.grid._act(operator.grid.devnet.provider, call)

    ended = job(operator.grid, run.id.number)
    assert ended.state is JobState.FINISHED
    billed_s = operator.grid.expected.billed_s(seconds)
    bill = billing_oracle.bill(run.escrow, billed_s, run.price_per_min)
    assert ended.final_cost == bill.cost
    assert operator.grid.balances()[1] - before == bill.provider


@pytest.mark.parametrize("generation", ["1.2"], indirect=True)
def test_plain_deepsquare_gets_no_expiry_that_it_does_not_support(operator):
    _, claimed_at = operator.claimed()
    operator.until(claimed_at + 40 * 86_400)
    assert operator.tick() == []
    run = operator.running()
    operator.until(run.started_at + 80 * 86_400)

    assert operator.tick() == []


def test_expiry_times_equal_those_of_the_contract(operator):
    """The error of a call that is too early has the time of the expiry."""
    running = operator.running().id.number
    stopping = operator.running().id.number
    operator.grid.cancel(stopping)
    claimed, claimed_at = operator.claimed()
    waiting = [
        job(operator.grid, number) for number in (operator.matched(), claimed, running, stopping)
    ]
    assert waiting[3].cancel_requested_at

    for state, early in zip((1, 2, 3, 3), waiting, strict=True):
        call = Expire(job_key=early.job_key, state=early.state, state_block=early.state_block)
        with pytest.raises(TransactionReverted, match="NotExpired") as refused:
            operator.grid._act(operator.grid.devnet.customer, call)
        end = expiry(early, operator.timeouts, claimed_at=claimed_at)
        assert refused.value.arguments == (str(state), str(end))
