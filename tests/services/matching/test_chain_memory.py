# SPDX-License-Identifier: Apache-2.0
"""Tests that the meta-scheduler reads only what changed, and that its memory equals the chain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.ledger import CREDIT, PRICES, FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor
from tests.services.matching.test_occupation import (
    CUSTOMER,
    HALF_NODE,
    HARDWARE,
    OTHER_CUSTOMER,
    PROVIDER,
    SECOND_PROVIDER,
    MatchingGrid,
    new_ledger,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import ChainUnavailable
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.chain_memory import ROTATION_TICKS, ChainMemory

HIGH_PRICES = replace(PRICES, cpu_per_min=50 * PRICES.cpu_per_min)


class ObservedLedger(FakeLedger):
    """A ledger that notes what is read.

    Attributes:
        read_ids: The ids of the jobs that were read.
        read_addresses: The addresses of the providers that were read.
        fails: Whether reads of jobs and providers fail.
        lag: By how many blocks the server lags that answers now.
    """

    fails = False
    lag = 0

    def __init__(self):
        super().__init__(FakeClock())
        self.read_ids = []
        self.read_addresses = []

    def head(self):
        return super().block(super().head().number - self.lag)

    def jobs(self, job_ids, *, at_block):
        self._raise_if_failing()
        self.read_ids += job_ids
        return super().jobs(job_ids, at_block=at_block)

    def approved_providers(self, addresses, *, at_block):
        self._raise_if_failing()
        self.read_addresses += addresses
        return super().approved_providers(addresses, at_block=at_block)

    def _raise_if_failing(self):
        if self.fails:
            raise ChainUnavailable("could not read the chain")

    def forget_reads(self):
        self.read_ids.clear()
        self.read_addresses.clear()


class FollowedMemory:
    """A memory and the follower that feeds it."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.memory = ChainMemory(ledger)
        self.follower = Follower(ledger, MemoryCursor())

    def tick(self):
        followed_to = self.follower.tick(self._read, rewind=self.memory.rewind)
        return self.memory.update(followed_to)

    def _read(self, events):
        for event in events:
            self.memory.read_event(event)

    def assert_equals_chain(self):
        head = self.ledger.head()
        jobs = self.ledger._state.jobs.values()
        assert dict(self.memory.jobs) == {job.id: job for job in jobs}
        addresses = self.ledger._state.providers
        assert dict(self.memory.providers) == self.ledger.approved_providers(
            addresses, at_block=head
        )


@pytest.fixture
def ledger():
    fake = ObservedLedger()
    fake.add_provider(PROVIDER, hardware=HARDWARE)
    return fake


@pytest.fixture
def followed(ledger):
    return FollowedMemory(ledger)


def change_job(change):
    """Return a job of which the change is possible, and the function that makes the change."""

    def prepare(ledger):
        job = ledger.request(CUSTOMER, resources=HALF_NODE)
        if change != "match":
            ledger.match(job.id.number, PROVIDER)
        if change not in {"match", "claim"}:
            ledger.claim(PROVIDER)
        if change == "settle":
            ledger.run(job.id.number)
        return job

    def act(ledger, number):
        changes = {
            "match": lambda: ledger.match(number, PROVIDER),
            "claim": lambda: ledger.claim(PROVIDER),
            "refuse": lambda: ledger.refuse(number),
            "start": lambda: ledger.run(number),
            "top up": lambda: ledger.top_up(number, 7 * CREDIT),
            "cancel": lambda: ledger.cancel(number),
            "settle": lambda: ledger.settle(number),
        }
        changes[change]()

    return prepare, act


@pytest.mark.parametrize(
    "change", ["match", "claim", "refuse", "start", "top up", "cancel", "settle"]
)
def test_only_the_job_that_changed_is_read(ledger, followed, change):
    prepare, act = change_job(change)
    job = prepare(ledger)
    ledger.request(OTHER_CUSTOMER)
    followed.tick()
    ledger.forget_reads()

    act(ledger, job.id.number)
    followed.tick()

    assert ledger.read_ids == [job.id]
    assert ledger.read_addresses == []
    followed.assert_equals_chain()


@pytest.mark.parametrize("change", ["approve", "prices", "drain", "ban", "remove"])
def test_only_the_provider_that_changed_is_read(ledger, followed, change):
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE)
    followed.tick()
    ledger.forget_reads()

    changes = {
        "approve": lambda: ledger.add_provider(PROVIDER, prices=HIGH_PRICES),
        "prices": lambda: ledger.set_prices(PROVIDER, HIGH_PRICES),
        "drain": lambda: ledger.set_draining(PROVIDER, draining=True),
        "ban": lambda: ledger.ban(PROVIDER),
        "remove": lambda: ledger.remove(PROVIDER),
    }
    changes[change]()
    followed.tick()

    assert ledger.read_addresses == [PROVIDER]
    followed.assert_equals_chain()


def test_nothing_is_read_without_an_event(ledger, followed):
    ledger.request(CUSTOMER)
    followed.tick()
    ledger.forget_reads()

    ledger.mine()
    followed.tick()

    assert (ledger.read_ids, ledger.read_addresses) == ([], [])


def test_reorg_undoes_the_changes_of_the_removed_blocks(ledger, followed):
    job = ledger.request(CUSTOMER, resources=HALF_NODE)
    ledger.mine()
    followed.tick()
    ledger.match(job.id.number, PROVIDER)
    ledger.set_prices(PROVIDER, HIGH_PRICES)
    followed.tick()
    assert followed.memory.jobs[job.id].state is JobState.META_SCHEDULED

    ledger.reorg(2)
    followed.tick()

    assert followed.memory.jobs[job.id].state is JobState.PENDING
    assert followed.memory.providers[PROVIDER].prices == PRICES
    followed.assert_equals_chain()


def test_job_of_another_customer_gets_the_id_after_a_reorg(ledger, followed):
    followed.tick()
    job = ledger.request(CUSTOMER)
    followed.tick()

    ledger.reorg(1)
    other_job = ledger.request(OTHER_CUSTOMER)
    followed.tick()

    assert other_job.id == job.id
    assert followed.memory.jobs[job.id].customer == OTHER_CUSTOMER


def test_job_is_forgotten_if_a_reorg_reverts_its_request(ledger, followed):
    followed.tick()
    ledger.request(CUSTOMER)
    followed.tick()

    ledger.reorg(1)
    followed.tick()

    assert followed.memory.is_empty


def test_removed_provider_returns_if_a_reorg_reverts_the_removal(ledger, followed):
    ledger.mine(2)
    followed.tick()
    ledger.remove(PROVIDER)
    followed.tick()
    assert PROVIDER not in followed.memory.providers

    ledger.reorg(1)
    followed.tick()

    assert PROVIDER in followed.memory.providers


def test_read_that_failed_is_repeated(ledger, followed):
    job = ledger.request(CUSTOMER)
    ledger.fails = True
    with pytest.raises(ChainUnavailable):
        followed.tick()

    ledger.fails = False
    update = followed.tick()

    assert update.job_ids == {job.id}
    followed.assert_equals_chain()


def test_server_that_lags_does_not_give_an_older_state(ledger, followed):
    job = ledger.request(CUSTOMER, resources=HALF_NODE)
    followed.tick()
    ledger.match(job.id.number, PROVIDER)
    newest_block = ledger.head()
    ledger.fails = True
    with pytest.raises(ChainUnavailable):
        followed.tick()

    ledger.fails = False
    ledger.lag = 1
    update = followed.tick()

    assert update.block == newest_block
    assert followed.memory.jobs[job.id].state is JobState.META_SCHEDULED


def test_changes_without_an_event_are_read_in_rotation(ledger, followed):
    ledger.has_all_change_events = False
    job_count = 2 * ROTATION_TICKS
    jobs = [ledger.request(CUSTOMER, resources=HALF_NODE) for _ in range(job_count)]
    ledger.match(jobs[0].id.number, PROVIDER)
    ledger.claim(PROVIDER)
    followed.tick()
    ledger.top_up(jobs[0].id.number, 7 * CREDIT)

    for _ in range(ROTATION_TICKS):
        ledger.forget_reads()
        followed.tick()
        assert len(ledger.read_ids) == job_count // ROTATION_TICKS
        assert ledger.read_addresses == [PROVIDER]

    followed.assert_equals_chain()


def test_meta_scheduler_knows_all_jobs_and_providers_after_a_deep_reorg():
    ledger = new_ledger()
    grid = MatchingGrid(ledger)
    first_job = ledger.request(CUSTOMER, resources=HALF_NODE)
    grid.tick()
    ledger.mine(10)
    grid.service.tick()

    ledger.reorg(10)
    second_job, third_job = [ledger.request(CUSTOMER, resources=HALF_NODE) for _ in range(2)]
    grid.tick()

    # The only node has room for two jobs.
    assert grid.providers_of(first_job, second_job, third_job) == [PROVIDER, PROVIDER, ""]
