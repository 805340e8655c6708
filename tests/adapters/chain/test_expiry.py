# SPDX-License-Identifier: Apache-2.0
"""Tests of the expiry of jobs. The meta-scheduler runs on real chains, over days of chain time."""

from __future__ import annotations

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.sender_setup import WalletSender, settlement

from gridstead.adapters.store.cursor import VolatileCursor
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.jobs.billing import paid_seconds_ceil, paid_seconds_floor
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import MARGIN_BLOCKS, MARGIN_S, expiry
from gridstead.domain.transactions.calls import Expire, Match
from gridstead.domain.transactions.outbox import SendState
from gridstead.errors import TransactionReverted
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

CLAIM_TIMEOUT_BLOCKS = 10
DAY_S = 86_400


class Operator:
    """The operator's services on a real chain. The tests send the calls of all other accounts."""

    def __init__(self, chain, directory):
        self.grid = join_real_grid(chain)
        batch = self.grid.expected.max_calls
        self.wallet_sender = WalletSender(chain, chain.operator, directory, max_batch_calls=batch)
        ledger = self.grid.ledger
        self.service = MetaScheduler(
            ledger,
            Follower(ledger, VolatileCursor()),
            self.wallet_sender.outbox,
            confirmations=1,
            skipped_matches=SkippedMatches(self.wallet_sender.clock),
        )
        self.timeouts = ledger.timeouts(at_block=ledger.head())

    def tick(self):
        """Run one tick of the meta-scheduler, send the calls of the tick, and return them."""
        self.service.tick()
        calls = [entry.call for entry in self.wallet_sender.outbox.open_entries()]
        self.wallet_sender.finish()
        for entry in self.wallet_sender.outbox.entries():
            assert entry.state is SendState.FINAL, entry.reason
        return calls

    def match_job(self):
        """Request and match a job, and return its number."""
        number = self.grid.request("script")
        (call,) = self.tick()
        assert isinstance(call, Match)
        return number

    def claim_job(self):
        """Request, match and claim a job; return its number and the time of the claim."""
        number = self.match_job()
        self.grid.claim()
        return number, self.grid.ledger.head().timestamp

    def start_job(self):
        """Request, match, claim and start a job, and return it."""
        number, claimed_at = self.claim_job()
        self.grid.run(number, claimed_at)
        return self.grid.job(number)

    def set_start_timeout(self, seconds):
        """Change a constant of the grid."""
        devnet = self.grid.devnet
        constants = devnet.contracts.constants
        data = constants.data("setStartTimeout", seconds)
        DirectSender(devnet.node, devnet.admin).transact(constants.address, data, name="constant")
        self.timeouts = self.grid.ledger.timeouts(at_block=self.grid.ledger.head())

    def mine_at(self, timestamp):
        """Mine a block with this time."""
        anvil = self.grid.devnet.anvil
        anvil.rpc("evm_setNextBlockTimestamp", timestamp)
        anvil.mine()

    def mine_to(self, number):
        """Mine blocks until the newest block has this number."""
        self.grid.mine(number - self.grid.ledger.head().number)


@pytest.fixture
def operator(chain, tmp_path):
    """Return the operator's services, on a grid that one provider has joined."""
    services = Operator(chain, tmp_path)
    yield services
    services.wallet_sender.close()


@on_all
def test_unclaimed_match_expires_and_is_matched_again(operator):
    number = operator.match_job()
    match_block = operator.grid.job(number).state_block
    operator.mine_to(match_block + CLAIM_TIMEOUT_BLOCKS + MARGIN_BLOCKS)
    assert operator.tick() == []
    operator.grid.mine()

    (call,) = operator.tick()

    assert isinstance(call, Expire)
    assert operator.grid.job(number).state is JobState.PENDING
    (call,) = operator.tick()
    assert isinstance(call, Match)
    assert call.provider == operator.grid.provider
    operator.grid.claim()
    assert operator.grid.job(number).state is JobState.SCHEDULED


@on_all
def test_expiry_is_rejected_if_the_job_is_claimed_before_the_expiry_is_sent(operator):
    number = operator.match_job()
    match_block = operator.grid.job(number).state_block
    operator.mine_to(match_block + CLAIM_TIMEOUT_BLOCKS + MARGIN_BLOCKS + 1)
    operator.service.tick()
    operator.grid.claim()
    operator.wallet_sender.finish()

    assert operator.wallet_sender.states() == [SendState.FINAL, SendState.REJECTED]
    assert "has changed its state" in operator.wallet_sender.reasons()[1]
    assert operator.grid.job(number).state is JobState.SCHEDULED


def test_claimed_job_that_never_starts_is_refunded(operator):
    balances = operator.grid.balances()
    number, claimed_at = operator.claim_job()
    operator.mine_at(claimed_at + operator.timeouts.start_s + MARGIN_S)
    assert operator.tick() == []
    operator.mine_at(claimed_at + operator.timeouts.start_s + MARGIN_S + 1)

    operator.tick()

    assert operator.grid.job(number).state is JobState.PANICKED
    assert operator.grid.balances() == balances


@pytest.mark.parametrize("claimed_ago_s", [60, 3 * DAY_S])
def test_request_to_cancel_that_the_provider_ignores_is_refunded(operator, claimed_ago_s):
    """A request expires settleGrace after it, but not later than the claim without it."""
    balances = operator.grid.balances()
    number, claimed_at = operator.claim_job()
    operator.mine_at(claimed_at + claimed_ago_s)
    operator.grid.cancel(number)
    assert operator.timeouts.start_s == operator.timeouts.settle_grace_s
    expires_at = claimed_at + operator.timeouts.start_s
    operator.mine_at(expires_at + MARGIN_S)
    assert operator.tick() == []
    operator.mine_at(expires_at + MARGIN_S + 1)

    operator.tick()

    assert operator.grid.job(number).state is JobState.CANCELLED
    assert operator.grid.balances() == balances


def test_running_job_that_is_never_settled_is_refunded(operator):
    balances = operator.grid.balances()
    job = operator.start_job()
    paid_until = job.started_at + paid_seconds_ceil(job.escrow, job.price_per_min)
    expires_at = paid_until + operator.timeouts.settle_grace_s
    operator.mine_at(expires_at + MARGIN_S)
    assert operator.tick() == []
    operator.mine_at(expires_at + MARGIN_S + 1)

    operator.tick()

    assert operator.grid.job(job.id.number).state is JobState.PANICKED
    assert operator.grid.balances() == balances


@on_all
def test_outage_within_the_grace_period_costs_a_provider_nothing(operator):
    _, provider_before = operator.grid.balances()
    job = operator.start_job()
    seconds = paid_seconds_floor(job.escrow, job.price_per_min)
    grace_s = operator.timeouts.settle_grace_s or 7 * DAY_S  # DeepSquare 1.2 has no grace period
    for days in range(1, grace_s // DAY_S):
        operator.mine_at(job.started_at + days * DAY_S)
        assert operator.tick() == []
    operator.mine_at(job.started_at + seconds + grace_s)
    assert operator.tick() == []
    call = settlement(job, seconds=seconds)
    operator.grid._act(operator.grid.devnet.provider, call)

    settled_job = operator.grid.job(job.id.number)
    assert settled_job.state is JobState.FINISHED
    billed_s = operator.grid.expected.billed_s(seconds)
    bill = billing_oracle.bill(job.escrow, billed_s, job.price_per_min)
    assert settled_job.final_cost == bill.cost
    _, provider_after = operator.grid.balances()
    assert provider_after - provider_before == bill.provider


@pytest.mark.parametrize("generation", ["1.2"], indirect=True)
def test_no_expiry_is_sent_to_contracts_that_do_not_support_it(operator):
    _, claimed_at = operator.claim_job()
    operator.mine_at(claimed_at + 40 * DAY_S)
    assert operator.tick() == []
    job = operator.start_job()
    operator.mine_at(job.started_at + 80 * DAY_S)

    assert operator.tick() == []


def test_expiry_times_equal_those_of_the_contract(operator):
    """If a call is too early, the contract's error contains the time or block of the expiry."""
    running_number = operator.start_job().id.number
    cancelled_number = operator.start_job().id.number
    operator.grid.cancel(cancelled_number)
    claimed_number, claimed_at = operator.claim_job()
    operator.set_start_timeout(90 * DAY_S)
    requested_number, _ = operator.claim_job()
    operator.grid.cancel(requested_number)
    matched_number = operator.match_job()
    assert operator.grid.job(cancelled_number).cancel_requested_at

    numbers = (matched_number, claimed_number, running_number, cancelled_number, requested_number)
    for number in numbers:
        job = operator.grid.job(number)
        call = Expire(job_key=job.job_key, state=job.state, state_block=job.state_block)
        with pytest.raises(TransactionReverted, match="NotExpired") as refusal:
            operator.grid._act(operator.grid.devnet.customer, call)
        expires_at = expiry(job, operator.timeouts, claimed_at=claimed_at)
        assert refusal.value.arguments == (str(int(job.state)), str(expires_at))
