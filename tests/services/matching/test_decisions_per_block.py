# SPDX-License-Identifier: Apache-2.0
"""Tests of when the meta-scheduler decides, and of how many matches wait in its outbox."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.ledger import FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.transactions.outbox import EntryChange, SendState
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

PROVIDER = "0x" + "11" * 20
SECOND_PROVIDER = "0x" + "22" * 20
CUSTOMERS = ("0x" + "33" * 20, "0x" + "44" * 20)
CONFIRMATIONS = 2
HARDWARE = Hardware(gpus_per_node=(0,), cpus_per_node=(8,), memory_per_node_mb=(8000,))
NODE_OF_TWO_CPUS = Hardware(gpus_per_node=(0,), cpus_per_node=(2,), memory_per_node_mb=(8000,))
ONE_CPU = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=100)


class OutboxWithoutRepeats(MemoryOutbox):
    """An outbox that accepts no second match of a job while the first is open."""

    def put(self, key, call):
        assert key not in {entry.key for entry in self.open_entries()}
        super().put(key, call)


class MatchingGrid:
    """A meta-scheduler that can restart, with its outbox and its ledger.

    Each request, end and cancellation of a job is in a block of its own.
    """

    def __init__(self, rules=None, hardware=HARDWARE):
        self.ledger = FakeLedger(FakeClock())
        self.ledger.add_provider(PROVIDER, hardware=hardware)
        self.outbox = OutboxWithoutRepeats()
        self.rules = rules or Rules()
        self.restart()

    def restart(self):
        self.service = MetaScheduler(
            self.ledger,
            Follower(self.ledger, MemoryCursor(), confirmations=CONFIRMATIONS),
            self.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=SkippedMatches(self.ledger.clock),
            rules=self.rules,
        )

    def tick(self):
        self.service.tick()

    def request(self, count=1, customer=CUSTOMERS[0]):
        return [self.ledger.request(customer, resources=ONE_CPU) for _ in range(count)]

    def matched_jobs(self):
        """Return the jobs of the open matches."""
        return [entry.call.job_key.job_id for entry in self.outbox.open_entries()]

    def reject_matches(self):
        rejected_ids = [entry.id for entry in self.outbox.open_entries()]
        state = SendState.REJECTED
        changes = [EntryChange(entry_id=entry_id, state=state) for entry_id in rejected_ids]
        self.outbox.record("", changes=changes, withdrawn_nonces=(), closed_nonces=())


def test_match_that_fails_is_decided_again_at_the_next_block():
    grid = MatchingGrid()
    (job,) = grid.request()
    grid.tick()
    assert grid.matched_jobs() == [job.id]

    grid.reject_matches()
    grid.tick()
    assert grid.matched_jobs() == []
    assert grid.service.pending()[job.id] == "being matched"

    grid.ledger.mine()
    grid.tick()
    assert grid.matched_jobs() == [job.id]


def test_reasons_remain_if_no_block_follows():
    grid = MatchingGrid(hardware=NODE_OF_TWO_CPUS)
    jobs = grid.request(3)
    grid.tick()
    reason = grid.service.pending()[jobs[2].id]

    grid.tick()

    assert reason.startswith("waits for a provider")
    assert grid.service.pending()[jobs[2].id] == reason


def test_matches_of_a_block_are_limited():
    grid = MatchingGrid(Rules(max_matches=2))
    jobs = [job.id for job in grid.request(5)]

    grid.tick()
    grid.tick()
    assert grid.matched_jobs() == jobs[:2]

    grid.ledger.deliver(grid.outbox, PROVIDER)
    grid.tick()
    assert grid.matched_jobs() == jobs[2:4]


def test_matches_do_not_pile_up_in_the_outbox_if_the_chain_includes_none():
    grid = MatchingGrid(Rules(max_matches=2))
    jobs = [job.id for job in grid.request(8)]

    for _ in range(4):
        grid.tick()
        grid.ledger.mine()

    assert grid.matched_jobs() == jobs[:4]


STEP = st.one_of(
    st.tuples(st.sampled_from(("request", "end", "cancel")), st.integers(0, 9)),
    st.tuples(
        st.sampled_from(("tick", "deliver", "reject", "restart", "mine", "reorg")), st.just(0)
    ),
)


class Driver:
    """Applies random steps to a grid."""

    def __init__(self):
        self.grid = MatchingGrid(Rules(max_matches=3), hardware=NODE_OF_TWO_CPUS)
        self.grid.ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE)
        self.first_block = self.grid.ledger.head().number

    def request(self, index):
        self.grid.request(customer=CUSTOMERS[index % 2])

    def end(self, index):
        ledger = self.grid.ledger
        jobs = self.jobs_in(JobState.META_SCHEDULED)
        if jobs:
            job = jobs[index % len(jobs)]
            ledger.claim(job.provider)
            ledger.run(job.id.number)
            ledger.settle(job.id.number, seconds=60)

    def cancel(self, index):
        jobs = self.jobs_in(JobState.PENDING)
        if jobs:
            self.grid.ledger.cancel(jobs[index % len(jobs)].id.number)

    def tick(self, _):
        self.grid.tick()

    def deliver(self, _):
        self.grid.ledger.deliver(self.grid.outbox, PROVIDER)

    def reject(self, _):
        self.grid.reject_matches()

    def restart(self, _):
        self.grid.restart()

    def mine(self, _):
        self.grid.ledger.mine()

    def reorg(self, _):
        if self.grid.ledger.head().number > self.first_block:
            self.grid.ledger.reorg(1)

    def jobs_in(self, state):
        jobs = self.grid.ledger._state.jobs.values()
        return [job for job in jobs if job.state is state]


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_no_job_ever_has_two_open_matches(steps):
    """``OutboxWithoutRepeats`` checks it. All jobs are matched in the end."""
    driver = Driver()
    for name, index in steps:
        getattr(driver, name)(index)

    for _ in range(20):
        driver.grid.tick()
        driver.deliver(0)
        for _ in driver.jobs_in(JobState.META_SCHEDULED):
            driver.end(0)
    driver.grid.tick()

    assert driver.jobs_in(JobState.PENDING) == []
