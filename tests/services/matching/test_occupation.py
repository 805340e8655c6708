# SPDX-License-Identifier: Apache-2.0
"""Tests of how the meta-scheduler counts occupied nodes, and which customer it serves first."""

from __future__ import annotations

import pytest
from tests.fakes.ledger import CREDIT, PRICES, FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.policies import SOONEST
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

PROVIDER = "0x" + "11" * 20
SECOND_PROVIDER = "0x" + "22" * 20
CUSTOMER = "0x" + "33" * 20
OTHER_CUSTOMER = "0x" + "44" * 20
CONFIRMATIONS = 2
# One node, on which one job of HALF_NODE leaves room for a second one.
HARDWARE = Hardware(gpus_per_node=(0,), cpus_per_node=(8,), memory_per_node_mb=(8000,))
HALF_NODE = Resources(gpus=0, tasks=1, cpus_per_task=4, memory_per_cpu_mb=100)
WHOLE_NODE = Resources(gpus=0, tasks=1, cpus_per_task=8, memory_per_cpu_mb=100)
# The price of a minute of HALF_NODE is 4 x (0.1 + 100 x 0.0001) credits = 0.44 credits.


def new_ledger(ledger_class=FakeLedger):
    """Return a ledger in memory, with transfers and PROVIDER."""
    ledger = ledger_class(FakeClock())
    ledger.with_transfers = True
    ledger.add_provider(PROVIDER, hardware=HARDWARE)
    return ledger


@pytest.fixture
def ledger():
    return new_ledger()


class MatchingGrid:
    """A meta-scheduler and its ledger."""

    def __init__(self, ledger, rules=None):
        self.ledger = ledger
        self.outbox = MemoryOutbox()
        self.rules = rules or Rules()
        self.service = self.start(self.rules)

    def start(self, rules):
        return MetaScheduler(
            self.ledger,
            Follower(self.ledger, MemoryCursor(), confirmations=CONFIRMATIONS),
            self.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=SkippedMatches(self.ledger.clock),
            rules=rules,
        )

    def tick(self):
        """Decide at the newest block, and mine the matches."""
        self.service.tick()
        self.ledger.deliver(self.outbox, PROVIDER)

    def providers_of(self, *jobs):
        """Return the provider of each job. Empty for a job that is not matched."""
        return [self.ledger.job(job.id.number).provider for job in jobs]

    def end(self, job, seconds=60):
        self.ledger.claim(job.provider)
        self.ledger.run(job.id.number)
        self.ledger.settle(job.id.number, seconds=seconds)


@pytest.fixture
def grid(ledger):
    return MatchingGrid(ledger)


def request(ledger, count, customer=CUSTOMER, resources=HALF_NODE, **fields):
    return [ledger.request(customer, resources=resources, **fields) for _ in range(count)]


def test_jobs_without_room_stay_pending(ledger, grid):
    jobs = request(ledger, 3)

    grid.tick()
    grid.tick()

    assert grid.providers_of(*jobs) == [PROVIDER, PROVIDER, ""]
    assert grid.service.pending()[jobs[2].id].startswith("waits for a provider: 1 full")


def test_job_is_matched_when_an_earlier_job_has_ended(ledger, grid):
    first_job, _, third_job = request(ledger, 3)
    grid.tick()

    grid.end(ledger.job(first_job.id.number))
    grid.tick()

    assert grid.providers_of(third_job) == [PROVIDER]


def test_job_is_matched_when_an_earlier_job_was_refused(ledger, grid):
    jobs = request(ledger, 3)
    grid.tick()

    ledger.claim(PROVIDER)
    ledger.refuse(jobs[0].id.number)
    grid.tick()

    assert grid.providers_of(*jobs) == ["", PROVIDER, PROVIDER]


def test_restarted_meta_scheduler_knows_which_nodes_are_occupied(ledger, grid):
    jobs = request(ledger, 3)
    grid.tick()

    grid.service = grid.start(Rules())
    grid.tick()

    assert grid.providers_of(*jobs) == [PROVIDER, PROVIDER, ""]


def test_match_that_waits_in_the_outbox_occupies_nodes_after_a_restart(ledger, grid):
    jobs = request(ledger, 3)
    grid.service.tick()

    grid.service = grid.start(Rules())
    grid.tick()

    assert grid.providers_of(*jobs) == [PROVIDER, PROVIDER, ""]


def test_rejected_match_occupies_no_nodes(ledger, grid):
    cancelled_job, second_job = request(ledger, 2, resources=WHOLE_NODE)
    grid.service.tick()

    ledger.cancel(cancelled_job.id.number)
    ledger.deliver(grid.outbox, PROVIDER)
    grid.tick()

    assert grid.providers_of(second_job) == [PROVIDER]


def test_job_that_does_not_exist_after_a_reorg_occupies_no_nodes(ledger, grid):
    request(ledger, 1, resources=WHOLE_NODE)
    grid.tick()
    grid.service.tick()

    ledger.reorg(2)  # the blocks of the request and the match
    (new_job,) = request(ledger, 1, customer=OTHER_CUSTOMER, resources=WHOLE_NODE)
    grid.tick()

    assert grid.providers_of(new_job) == [PROVIDER]


def test_queue_allowance_permits_matches_without_room(ledger):
    grid = MatchingGrid(ledger, Rules(queue_allowance=1))
    jobs = request(ledger, 4)

    grid.tick()
    grid.tick()

    assert grid.providers_of(*jobs) == [PROVIDER, PROVIDER, PROVIDER, ""]


def test_dearer_provider_gets_the_jobs_for_which_the_cheaper_one_has_no_room(ledger):
    dear_prices = type(PRICES)(
        gpu_per_min=PRICES.gpu_per_min,
        cpu_per_min=2 * PRICES.cpu_per_min,
        memory_mb_per_min=2 * PRICES.memory_mb_per_min,
    )
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE, prices=dear_prices)
    grid = MatchingGrid(ledger, Rules(policy=SOONEST))
    jobs = request(ledger, 3)

    grid.tick()

    assert grid.providers_of(*jobs) == [PROVIDER, PROVIDER, SECOND_PROVIDER]


def test_customers_with_equal_credits_take_turns(ledger):
    for customer in (CUSTOMER, OTHER_CUSTOMER):
        ledger.mint(customer, 10_000 * CREDIT)
    ledger.mine(10)
    grid = MatchingGrid(ledger)
    first_jobs = request(ledger, 4)
    other_jobs = request(ledger, 4, customer=OTHER_CUSTOMER)

    grid.tick()

    assert grid.providers_of(*first_jobs) == [PROVIDER, "", "", ""]
    assert grid.providers_of(*other_jobs) == [PROVIDER, "", "", ""]


def test_customer_with_more_credits_is_served_more_often(ledger):
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE)
    ledger.mint(CUSTOMER, 1000 * CREDIT)
    ledger.mint(OTHER_CUSTOMER, 3000 * CREDIT)
    ledger.mine(1000)
    grid = MatchingGrid(ledger)
    jobs = request(ledger, 4, escrow=CREDIT)
    richer_jobs = request(ledger, 4, customer=OTHER_CUSTOMER, escrow=CREDIT)

    grid.tick()

    assert sum(map(bool, grid.providers_of(*jobs))) == 1
    assert sum(map(bool, grid.providers_of(*richer_jobs))) == 3


def test_bill_replaces_the_escrow_in_what_a_customer_used(ledger):
    for customer in (CUSTOMER, OTHER_CUSTOMER):
        ledger.mint(customer, 1000 * CREDIT)
    ledger.mine(1000)
    grid = MatchingGrid(ledger)
    # The customer pays 0.44 of 50 credits. The other customer pays 30 of 30 credits.
    (cheap_job,) = request(ledger, 1, escrow=50 * CREDIT)
    (dear_job,) = request(ledger, 1, customer=OTHER_CUSTOMER, escrow=30 * CREDIT)
    grid.tick()
    ledger.clock.advance(7200)
    ledger.claim(PROVIDER)
    for job, seconds in ((cheap_job, 60), (dear_job, 4091)):
        ledger.run(job.id.number, started_at=ledger.clock.now())
        ledger.clock.advance(4091)
        ledger.settle(job.id.number, seconds=seconds)
    (other_job,) = request(ledger, 1, customer=OTHER_CUSTOMER, resources=WHOLE_NODE)
    (job,) = request(ledger, 1, resources=WHOLE_NODE)
    grid.tick()

    assert grid.providers_of(job, other_job) == [PROVIDER, ""]


def credits_of(grid, customer):
    """Return the credits that count for a customer, including its escrow, in whole credits.

    After a very long time, the average of the credits equals the current credits.
    """
    shares = grid.service._grid.matcher.shares
    return round(shares.weight(customer, block=10**8) / CREDIT)


def test_transfer_counts_only_after_its_confirmations(ledger, grid):
    ledger.mint(CUSTOMER, 70 * CREDIT)
    request(ledger, 1, escrow=50 * CREDIT)
    grid.service.tick()
    assert credits_of(grid, CUSTOMER) == 50

    ledger.mine(CONFIRMATIONS)
    grid.service.tick()

    assert credits_of(grid, CUSTOMER) == 120


def test_deep_reorg_counts_all_transfers_again(ledger, grid):
    ledger.mint(OTHER_CUSTOMER, 30 * CREDIT)
    ledger.mine(CONFIRMATIONS)
    ledger.mint(CUSTOMER, 70 * CREDIT)
    request(ledger, 1, customer=OTHER_CUSTOMER, escrow=50 * CREDIT)
    ledger.mine(CONFIRMATIONS + 1)
    grid.service.tick()
    assert credits_of(grid, CUSTOMER) == 70

    ledger.reorg(CONFIRMATIONS + 2)  # removes the request and the transfer before it
    request(ledger, 1, customer=OTHER_CUSTOMER, escrow=20 * CREDIT)
    ledger.mine(CONFIRMATIONS)
    grid.service.tick()

    assert credits_of(grid, CUSTOMER) == 0
    assert credits_of(grid, OTHER_CUSTOMER) == 50


def test_state_of_ended_jobs_is_forgotten(ledger, grid):
    (job,) = request(ledger, 1)
    grid.tick()
    grid.end(ledger.job(job.id.number))
    ledger.mine(CONFIRMATIONS + 1)
    grid.service.tick()

    state = grid.service._grid
    assert ledger.job(job.id.number).state is JobState.FINISHED
    assert not state._shown_jobs
    assert not state._requested_blocks
    assert not state._matched_blocks
