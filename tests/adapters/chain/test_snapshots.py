# SPDX-License-Identifier: Apache-2.0
"""A meta-scheduler that restarts from a snapshot, on a real chain with a real store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.adapters.chain.grids import join_real_grid
from tests.adapters.chain.sender_setup import WalletSender

from gridstead.adapters.store.cursor import VolatileCursor
from gridstead.adapters.store.snapshots import SqlSnapshotStore
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches
from gridstead.services.matching.snapshots import Snapshots

CONFIRMATIONS = 2


class Operator:
    """The operator's services on a real chain, whose store is a file."""

    def __init__(self, chain, folder):
        self.chain = chain
        self.grid = join_real_grid(chain)
        self.sender = WalletSender(chain, chain.operator, folder, confirmations=CONFIRMATIONS)
        self.start()

    def start(self):
        """Start the meta-scheduler with the snapshot in the store."""
        self.snapshots, self.service, self.cursor = self.new_service(
            SqlSnapshotStore(self.sender.database, rules="")
        )

    def new_service(self, store):
        ledger = self.grid.ledger_with_transfers()
        cursor = VolatileCursor()
        service = MetaScheduler(
            ledger,
            Follower(ledger, cursor, confirmations=CONFIRMATIONS),
            self.sender.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=SkippedMatches(self.sender.clock),
        )
        snapshots = Snapshots(service, cursor, ledger, store, confirmations=CONFIRMATIONS)
        return snapshots, service, cursor

    def restart(self):
        """Stop the services, and start them again."""
        self.snapshots.save_at_stop()
        self.sender.restart()
        self.start()

    def tick(self):
        """Run a tick, and mine its calls. Return the log events about snapshots."""
        with capture_logs() as log:
            self.snapshots.tick()
        self.sender.finish()
        return [entry["event"] for entry in log if entry["event"].startswith("snapshot_")]

    def known_values(self):
        """Run a tick. Return what the meta-scheduler then knows from the chain, in no order."""
        self.snapshots.tick()
        return _known_values(self.service.snapshot(self.cursor.history()))

    def values_from_first_block(self):
        """Return what a meta-scheduler knows that reads the chain from the first block."""
        _, service, cursor = self.new_service(None)
        service.tick()
        return _known_values(service.snapshot(cursor.history()))


def _known_values(snapshot):
    memory = snapshot.memory
    jobs = {job.id: job for job in memory.jobs}
    # The blocks of jobs that a reorg removed may remain.
    blocks = (memory.job_events, snapshot.grid.requested_blocks, snapshot.grid.matched_blocks)
    return (
        memory.block,
        jobs,
        [{job_id: each[job_id] for job_id in jobs if job_id in each} for each in blocks],
        {provider.address: provider for provider in memory.providers},
        set(memory.approved),
        snapshot.grid.new_transfers,
        snapshot.grid.counted_to,
        snapshot.claims.returns,
        snapshot.claims.claim_blocks,
        snapshot.matcher.accounts,
        replace(snapshot.reputation, updated_at=None),
    )


@pytest.fixture
def operator(chain, tmp_path):
    operator = Operator(chain, tmp_path)
    yield operator
    operator.sender.database.close()


def run_jobs(operator):
    """Bring jobs into all states, and return their numbers."""
    grid = operator.grid
    numbers = [grid.request(f"script-{index}") for index in range(4)]
    operator.tick()
    grid.claim()
    now = grid.ledger.head().timestamp
    for number in numbers[:2]:
        grid.run(number, now)
    grid.pass_time(120)
    grid.settle(numbers[0])
    grid.refuse(numbers[3])
    return numbers


def test_restarted_meta_scheduler_knows_what_the_events_show(operator):
    numbers = run_jobs(operator)
    operator.tick()
    operator.restart()
    operator.grid.top_up(numbers[1], 10**18)
    operator.grid.cancel(numbers[2])
    numbers.append(operator.grid.request("last"))

    assert operator.tick() == ["snapshot_restored"]

    assert operator.known_values() == operator.values_from_first_block()
    assert operator.grid.job(numbers[-1]).state is JobState.META_SCHEDULED


def test_restart_after_a_short_reorg_uses_the_snapshot(operator):
    run_jobs(operator)
    operator.grid.mine(CONFIRMATIONS)
    operator.tick()
    lost_number = operator.grid.request("lost")
    operator.snapshots.tick()
    operator.restart()

    operator.grid.reorg(1)

    assert operator.grid.jobs(lost_number) == {}
    assert operator.tick() == ["snapshot_restored"]
    assert operator.known_values() == operator.values_from_first_block()


def test_restart_after_a_deep_reorg_reads_from_the_first_block(operator):
    run_jobs(operator)
    operator.grid.mine(2 * CONFIRMATIONS)
    operator.tick()
    operator.restart()

    operator.grid.reorg(CONFIRMATIONS + 1)

    assert operator.tick() == ["snapshot_not_used"]
    assert operator.known_values() == operator.values_from_first_block()
