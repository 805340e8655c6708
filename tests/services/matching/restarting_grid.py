# SPDX-License-Identifier: Apache-2.0
"""A grid whose meta-scheduler restarts from snapshots, and random steps that change the grid."""

from __future__ import annotations

from random import Random

from tests.fakes.ledger import CREDIT, PRICES, FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox, MemorySnapshotStore

from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.job import Hardware
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.shares import HalfLife
from gridstead.domain.transactions.calls import Expire, Match
from gridstead.domain.transactions.outbox import EntryChange, SendState, SkippedCall
from gridstead.errors import TransactionReverted
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.matching.snapshots import Snapshots

PROVIDERS = tuple("0x" + digits * 20 for digits in ("11", "22"))
CUSTOMERS = tuple("0x" + digits * 20 for digits in ("33", "44", "55"))
FIRST_WALLET = "0x" + "aa" * 20  # the other meta-scheduler, which has the lower address
WALLET = "0x" + "bb" * 20
CONFIRMATIONS = 3
RULES = Rules(max_matches=3, half_life=HalfLife(40), queue_allowance=0)
HARDWARE = Hardware(gpus_per_node=(0, 0), cpus_per_node=(4, 8), memory_per_node_mb=(8000, 8000))
SIZES = (2, 3, 4, 8)  # CPUs of a task
DEAR_PRICES = Prices(gpu_per_min=10**18, cpu_per_min=10**18, memory_mb_per_min=10**14)


class RestartingGrid:
    """A meta-scheduler that can restart, with its stores and its ledger.

    Args:
        has_other: Whether another meta-scheduler is first.
    """

    def __init__(self, *, has_other=False):
        self.ledger = FakeLedger(FakeClock())
        self.ledger.with_transfers = True
        for address in PROVIDERS:
            self.ledger.add_provider(address, hardware=HARDWARE)
        if has_other:
            contracts = self.ledger._contracts()
            contracts._add_event(ChainEventKind.SCHEDULER_ADDED, scheduler=FIRST_WALLET)
        self.first_block = self.ledger.mine().number
        self.outbox = MemoryOutbox()
        self.store = MemorySnapshotStore()
        self.start()

    def start(self):
        """Start a new process, which restores the stored snapshot at its first tick."""
        cursor = MemoryCursor()
        self.skipped_matches = SkippedMatches(self.ledger.clock)
        self.service = MetaScheduler(
            self.ledger,
            Follower(self.ledger, cursor, confirmations=CONFIRMATIONS),
            self.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=self.skipped_matches,
            rules=RULES,
            wallet=WALLET,
        )
        self.snapshots = Snapshots(
            self.service, cursor, self.ledger, self.store, confirmations=CONFIRMATIONS
        )

    def restart(self, _=0):
        """Save a snapshot, and start a new process."""
        self.snapshots.save()
        self.start()

    def matches(self):
        """Return all matches that were requested, in order, with their states."""
        entries = self.outbox.entries()
        return [(entry.call, entry.state) for entry in entries if isinstance(entry.call, Match)]

    def expiries(self):
        """Return the jobs whose expiry was requested, sorted. Equal limits have no order."""
        entries = self.outbox.entries()
        calls = [entry.call for entry in entries if isinstance(entry.call, Expire)]
        return sorted((call.job_key, call.state_block) for call in calls)

    # The steps. An index chooses the customer, the job or the provider.

    def tick(self, _=0):
        self.snapshots.tick()

    def save(self, _=0):
        self.snapshots.save()

    def request(self, index):
        resources = Resources(
            gpus=0,
            tasks=1 + index % 2,
            cpus_per_task=SIZES[index % len(SIZES)],
            memory_per_cpu_mb=100,
        )
        escrow = (1 + index % 5) * 20 * CREDIT
        self.ledger.request(CUSTOMERS[index % 3], resources=resources, escrow=escrow)

    def top_up(self, index):
        self._act_on(index, *JobState, call=lambda job: self.ledger.top_up(job, 5 * CREDIT))

    def claim(self, index):
        self._try(lambda: self.ledger.claim(PROVIDERS[index % 2], limit=1 + index % 2))

    def run(self, index):
        self._act_on(index, JobState.SCHEDULED, call=self.ledger.run)

    def settle(self, index):
        state = JobState.FINISHED if index % 3 else JobState.PANICKED
        self._act_on(
            index, JobState.RUNNING, call=lambda job: self.ledger.settle(job, state, seconds=600)
        )

    def refuse(self, index):
        states = (JobState.META_SCHEDULED, JobState.SCHEDULED)
        self._act_on(index, *states, call=self.ledger.refuse)

    def cancel(self, index):
        self._act_on(index, JobState.PENDING, JobState.SCHEDULED, call=self.ledger.cancel)

    def change_prices(self, index):
        prices = DEAR_PRICES if index % 3 else PRICES
        self.ledger.set_prices(PROVIDERS[index % 2], prices)

    def drain(self, index):
        self._try(lambda: self.ledger.set_draining(PROVIDERS[index % 2], draining=index % 3 == 0))

    def deliver(self, _=0):
        self.ledger.deliver(self.outbox, PROVIDERS[0])

    def skip(self, _=0):
        """Reject the open matches, as if the contracts had skipped them. The next tick sees it."""
        for entry in self.outbox.open_entries():
            change = EntryChange(entry_id=entry.id, state=SendState.REJECTED)
            self.outbox.record("", changes=[change], withdrawn_nonces=(), closed_nonces=())
            if isinstance(entry.call, Match):
                now = self.ledger.clock.now()
                self.skipped_matches.add(
                    SkippedCall(
                        call=entry.call,
                        error="PriceAboveLimit(2, 1)",
                        requested_at=now,
                        seen_at=now,
                    )
                )
        self.tick()

    def mine(self, index):
        self.ledger.clock.advance(60 * index)
        self.ledger.mine(1 + index)

    def reorg(self, index):
        depth = 1 + index % CONFIRMATIONS
        if self.ledger.head().number - depth >= self.first_block:
            self.ledger.reorg(depth, length=depth + 1)

    def reorg_deeply(self, index):
        """Replace more blocks than the confirmations."""
        depth = CONFIRMATIONS + 1 + index
        if self.ledger.head().number - depth >= self.first_block:
            self.ledger.reorg(depth, length=depth + 1)

    def _act_on(self, index, *states, call):
        jobs = [job.id.number for job in self.ledger._state.jobs.values() if job.state in states]
        if jobs:
            self._try(lambda: call(jobs[index % len(jobs)]))

    @staticmethod
    def _try(call):
        try:
            call()
        except TransactionReverted:
            return


# Frequent steps fill the providers, so that jobs wait and get reservations.
STEP_NAMES = (
    *("request",) * 8,
    *("tick",) * 8,
    *("deliver",) * 6,
    *("claim", "run") * 4,
    *("settle", "mine", "restart") * 2,
    *("top_up", "refuse", "cancel", "change_prices", "drain", "skip", "reorg", "reorg_deeply"),
)
STEP_COUNT = 150
MAX_INDEX = 11


def random_steps(seed):
    """Return names of steps, each with an index."""
    random = Random(seed)
    names = random.choices(STEP_NAMES, k=STEP_COUNT)
    return [(name, random.randint(0, MAX_INDEX)) for name in names]
