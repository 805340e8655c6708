# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler excludes providers that change their terms before their matches are mined."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.fakes.account import FakeAccount
from tests.fakes.ledger import PRICES, FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.skips import (
    JOB_EXCLUSION_S,
    MAX_CHANGES,
    PERIOD_S,
    SKIPPED_SEVERAL,
    SKIPPED_THIS_JOB,
)
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.transactions.sender import Sender, SenderPorts

OPERATOR = "0x" + "0f" * 20
CHEAP_PROVIDER, HONEST_PROVIDER = "0x" + "11" * 20, "0x" + "22" * 20
CUSTOMER = "0x" + "33" * 20
CONFIRMATIONS = 2
BLOCK_S = 2
RAISED_PRICES = replace(PRICES, cpu_per_min=2 * PRICES.cpu_per_min)
HONEST_PRICES = replace(PRICES, cpu_per_min=3 * PRICES.cpu_per_min)


class MatchingSetup:
    """A meta-scheduler with its sender on a fake chain, and a provider that can change its price.

    Attributes:
        raises_price: Whether CHEAP_PROVIDER raises its price in the block of each match, and lowers
            the price in the next block.
    """

    def __init__(self):
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.outbox = MemoryOutbox(self.clock)
        self.raises_price = False
        self.ledger.add_provider(CHEAP_PROVIDER)
        self.ledger.automine = False
        self.start()

    def start(self):
        """Start the services with the same chain and outbox, as after a restart."""
        self.skipped_matches = SkippedMatches(self.clock)
        self.service = MetaScheduler(
            self.ledger,
            Follower(self.ledger, MemoryCursor()),
            self.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=self.skipped_matches,
        )
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=FakeAccount(self.ledger, OPERATOR),
            transactions=self.outbox,
        )
        policy = DispatchPolicy(confirmations=CONFIRMATIONS)
        self.sender = Sender(ports, policy, on_skipped=self.skipped_matches.add)

    def set_prices(self, prices, address=CHEAP_PROVIDER):
        """Set a provider's prices in the next block."""
        self.ledger.set_prices(address, prices)

    def set_joined(self, is_joined, address=CHEAP_PROVIDER):
        """Set whether a provider accepts jobs from the next block on."""
        self.ledger.set_draining(address, draining=not is_joined)

    def mine(self):
        self.ledger.mine()
        self.clock.advance(BLOCK_S)

    def tick(self):
        """Run both services at the newest block."""
        self.service.tick()
        self.sender.tick()

    def step(self, count=1):
        """Run the services, and mine two blocks."""
        for _ in range(count):
            self.tick()
            if self.raises_price:
                self.set_prices(RAISED_PRICES)
            self.mine()
            if self.raises_price:
                self.set_prices(PRICES)
            self.mine()

    def add_honest_provider(self):
        self.ledger.automine = True
        self.ledger.add_provider(HONEST_PROVIDER, prices=HONEST_PRICES)
        self.ledger.automine = False

    def request(self):
        """Request a job, and return its number."""
        number = self.ledger.request(CUSTOMER).id.number
        self.mine()
        return number

    def skip_a_match(self):
        """Make CHEAP_PROVIDER raise its price before a match, and return the number of the job.

        Afterwards, the service has seen the skipped match.
        """
        number = self.request()
        self.raises_price = True
        self.step()
        self.raises_price = False
        self.step(CONFIRMATIONS + 1)
        return number


@pytest.fixture
def grid():
    return MatchingSetup()


def events_of(logs, name):
    return [log_event for log_event in logs if log_event["event"] == name]


def test_provider_that_raises_its_price_before_each_match_does_not_keep_jobs_pending(grid):
    grid.add_honest_provider()
    grid.raises_price = True
    numbers = [grid.request() for _ in range(3)]

    grid.step(10)

    for number in numbers:
        job = grid.ledger.job(number)
        assert (job.state, job.provider) == (JobState.META_SCHEDULED, HONEST_PROVIDER)


def test_skipped_match_counts_if_the_sender_stores_it_during_a_tick(grid, monkeypatch):
    """The sender runs in another thread. Its report must reach the choice of the provider."""
    grid.add_honest_provider()
    number = grid.request()
    grid.tick()
    grid.set_prices(RAISED_PRICES)
    for _ in range(CONFIRMATIONS + 1):
        grid.mine()
    grid.set_prices(PRICES)
    read_head = grid.ledger.head

    def read_head_after_the_sender():
        monkeypatch.undo()
        grid.sender.tick()
        return read_head()

    monkeypatch.setattr(grid.ledger, "head", read_head_after_the_sender)
    grid.service.tick()
    assert grid.outbox.open_entries() == ()  # no second match without the report
    grid.step(2)

    assert grid.ledger.job(number).provider == HONEST_PROVIDER


def test_provider_that_stops_before_each_match_does_not_keep_a_job_pending(grid):
    grid.add_honest_provider()
    number = grid.request()

    for _ in range(5):
        grid.tick()
        grid.set_joined(False)
        grid.mine()
        grid.set_joined(True)
        grid.mine()

    assert grid.ledger.job(number).provider == HONEST_PROVIDER


def test_price_change_that_skips_many_matches_costs_the_provider_only_these_jobs(grid):
    grid.add_honest_provider()
    numbers = [grid.request() for _ in range(MAX_CHANGES + 2)]
    grid.tick()
    grid.set_prices(RAISED_PRICES)
    grid.mine()
    grid.step(5)

    new_number = grid.request()
    grid.step()

    for number in numbers:
        assert grid.ledger.job(number).provider == HONEST_PROVIDER
    assert grid.ledger.job(new_number).provider == CHEAP_PROVIDER
    assert grid.skipped_matches.exclusions() == {}


def test_matches_that_waited_long_for_a_block_count_as_one_change(grid):
    # The sender does not run while jobs arrive, and the provider changes its price once.
    for _ in range(MAX_CHANGES + 2):
        grid.request()
        grid.service.tick()
        grid.clock.advance(60)
    grid.set_prices(RAISED_PRICES)
    for _ in range(5):
        grid.sender.tick()
        grid.mine()
    grid.service.tick()

    assert grid.skipped_matches.counts()["PriceAboveLimit"] == 1


def test_provider_is_excluded_from_all_jobs_after_repeated_changes(grid):
    with capture_logs() as logs:
        for _ in range(MAX_CHANGES):
            grid.skip_a_match()
    grid.add_honest_provider()
    new_number = grid.request()
    grid.step()

    assert grid.ledger.job(new_number).provider == HONEST_PROVIDER
    (exclusion,) = events_of(logs, "provider_excluded")
    assert exclusion["provider"] == CHEAP_PROVIDER
    assert "PriceAboveLimit" in exclusion["reason"]
    assert 0 < exclusion["duration_s"] <= PERIOD_S
    assert len(events_of(logs, "match_skipped")) == MAX_CHANGES
    assert "excluded until 2027-01-15T" in grid.skipped_matches.exclusions()[CHEAP_PROVIDER]
    assert grid.skipped_matches.counts()["PriceAboveLimit"] == MAX_CHANGES


def test_pending_job_names_the_exclusion_as_its_reason(grid):
    number = grid.skip_a_match()
    assert SKIPPED_THIS_JOB in grid.service.pending()[grid.ledger.job_id(number)]
    for _ in range(MAX_CHANGES - 1):
        grid.skip_a_match()
    new_number = grid.request()

    grid.step()

    assert SKIPPED_SEVERAL in grid.service.pending()[grid.ledger.job_id(new_number)]


def test_exclusion_ends_after_the_period(grid):
    for _ in range(MAX_CHANGES):
        grid.skip_a_match()
    assert set(grid.skipped_matches.exclusions()) == {CHEAP_PROVIDER}
    number = grid.request()

    grid.clock.advance(PERIOD_S)
    with capture_logs() as logs:
        grid.step(2)

    assert grid.ledger.job(number).provider == CHEAP_PROVIDER
    (exclusion_end,) = events_of(logs, "provider_exclusion_ended")
    assert exclusion_end["provider"] == CHEAP_PROVIDER
    assert grid.skipped_matches.exclusions() == {}


def test_only_provider_gets_the_job_of_a_skipped_match_after_some_minutes(grid):
    number = grid.skip_a_match()
    assert grid.ledger.job(number).state is JobState.PENDING

    grid.clock.advance(JOB_EXCLUSION_S)
    grid.step(2)

    assert grid.ledger.job(number).provider == CHEAP_PROVIDER


def test_match_of_a_job_that_was_cancelled_does_not_count(grid):
    for _ in range(MAX_CHANGES):
        number = grid.request()
        grid.tick()
        grid.ledger.cancel(number)
        grid.step(CONFIRMATIONS + 1)

    assert not any(grid.skipped_matches.counts().values())
    new_number = grid.request()
    grid.step()
    assert grid.ledger.job(new_number).provider == CHEAP_PROVIDER


def test_skipped_matches_are_forgotten_at_a_restart(grid):
    for _ in range(MAX_CHANGES):
        number = grid.skip_a_match()
    grid.start()

    grid.step(2)

    assert grid.ledger.job(number).provider == CHEAP_PROVIDER
