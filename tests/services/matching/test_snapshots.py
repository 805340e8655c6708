# SPDX-License-Identifier: Apache-2.0
"""Tests of a meta-scheduler that restarts from snapshots."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.services.matching.restarting_grid import CONFIRMATIONS, RestartingGrid, random_steps

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import ChainUnavailable, Transient, UnexpectedOutput


class Twins:
    """Two grids with the same steps. The meta-scheduler of the first grid never restarts.

    Exception: if the other one reads all events again, because the reorg since its snapshot may be
    too deep, the first one does so too.
    """

    def __init__(self, *, has_other):
        self.steady = RestartingGrid(has_other=has_other)
        self.restarting = RestartingGrid(has_other=has_other)
        self.read_again_count = 0
        self.restored_count = 0
        # The newest block at the last restart. The reasons are known again at the next one.
        self._restart_block = None

    def step(self, name, index=0):
        if name == "restart":
            self.restarting.restart()
            self._restart_block = self.steady.ledger.head()
            return
        with capture_logs() as log:
            getattr(self.restarting, name)(index)
        events = [entry["event"] for entry in log]
        self.restored_count += events.count("snapshot_restored")
        if "snapshot_not_used" in events and self.restarting.store.content is not None:
            self.read_again_count += 1
            self.steady.start()
        getattr(self.steady, name)(index)
        if name == "tick":
            self._compare()

    def _compare(self):
        grids = (self.steady, self.restarting)
        assert self.steady.matches() == self.restarting.matches()
        assert self.steady.expiries() == self.restarting.expiries()
        steady, restarting = (grid.service for grid in grids)
        assert steady.matched() == restarting.matched()
        assert steady.pending().keys() == restarting.pending().keys()
        if self.steady.ledger.head() != self._restart_block:
            self._restart_block = None
            assert steady.pending() == restarting.pending()
            for job_id in steady.pending():
                assert steady.explanation(job_id) == restarting.explanation(job_id)


@pytest.mark.parametrize("has_other", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_restart_from_a_snapshot_changes_no_decision(seed, has_other):
    """Decisions, reasons and expiries are those of a meta-scheduler that never restarts."""
    twins = Twins(has_other=has_other)
    for name, index in random_steps(seed):
        twins.step(name, index)
    twins.step("tick")
    twins.step("restart")
    for _ in range(5):
        twins.step("mine")
        twins.step("tick")
    assert twins.restored_count


@pytest.mark.parametrize("seed", range(6))
def test_restart_after_a_deep_reorg_decides_as_without_a_snapshot(seed):
    grids = (RestartingGrid(), RestartingGrid())
    for grid in grids:
        for name, index in random_steps(seed):
            getattr(grid, name)(index)
        grid.ledger.mine(2 * CONFIRMATIONS)
        grid.tick()
        grid.restart()
        grid.reorg_deeply(1)
    with_snapshot, without_snapshot = grids
    without_snapshot.store.content = None

    for _ in range(5):
        for grid in grids:
            grid.tick()
            grid.deliver()

    assert with_snapshot.matches() == without_snapshot.matches()
    assert with_snapshot.expiries() == without_snapshot.expiries()
    assert with_snapshot.service.pending() == without_snapshot.service.pending()


@pytest.mark.parametrize("seed", range(6))
def test_no_job_is_lost_or_matched_twice_after_crashes(seed):
    """A crash loses all changes since the last snapshot."""
    grid = RestartingGrid()
    for number, (name, index) in enumerate(random_steps(seed)):
        if name == "restart":
            grid.start()
        else:
            getattr(grid, name)(index)
        if number % 20 == 0:
            grid.save()
        open_jobs = [entry.call.job_key for entry in grid.outbox.open_entries()]
        assert len(open_jobs) == len(set(open_jobs))

    for index in range(150):
        grid.tick()
        for name in ("deliver", "claim", "run", "settle"):
            getattr(grid, name)(index)
        grid.mine(2)

    # Every job that is still pending fits on no provider.
    reasons = grid.service.pending().values()
    assert [reason for reason in reasons if not reason.startswith("no provider can run it")] == []


@pytest.fixture
def grid():
    """Return a grid with a stored snapshot, whose meta-scheduler has just restarted."""
    grid = RestartingGrid()
    for index in range(6):
        grid.request(index)
    grid.tick()
    grid.restart()
    return grid


def restart_events(grid):
    """Run a tick. Return the log events about snapshots, with their reasons."""
    with capture_logs() as log:
        grid.tick()
    return [
        (entry["event"], entry["log_level"], entry.get("reason"))
        for entry in log
        if entry["event"].startswith("snapshot_")
    ]


class BrokenStore:
    """A store whose methods fail."""

    def __init__(self, error):
        self._error = error

    def save(self, _):
        raise self._error

    def load(self):
        raise self._error


def test_restart_reads_only_new_blocks(grid, monkeypatch):
    first_blocks = []
    read_events = grid.ledger.events

    def events(*, first, end):
        first_blocks.append(first)
        return read_events(first=first, end=end)

    monkeypatch.setattr(grid.ledger, "events", events)
    head = grid.ledger.head()
    grid.ledger.mine()

    assert restart_events(grid) == [("snapshot_restored", "info", None)]
    assert first_blocks == [head.number + 1]


def test_first_start_reads_from_the_first_block():
    grid = RestartingGrid()

    assert restart_events(grid) == [("snapshot_not_used", "info", "there is none")]


def test_unusable_snapshot_causes_a_warning(grid):
    grid.snapshots._store = BrokenStore(UnexpectedOutput("the state store", "damaged"))

    assert restart_events(grid) == [("snapshot_not_used", "warning", "'damaged'")]
    assert len(grid.service.matched()) + len(grid.service.pending()) == 6


def test_snapshot_before_a_deep_reorg_is_not_used(grid):
    grid.ledger.reorg(CONFIRMATIONS + 2)

    reason = f"the reorg may be deeper than {CONFIRMATIONS} blocks"
    assert restart_events(grid) == [("snapshot_not_used", "warning", reason)]


def test_restart_is_repeated_if_the_chain_does_not_answer(grid):
    grid.ledger.down = True
    with pytest.raises(ChainUnavailable):
        grid.tick()

    grid.ledger.down = False

    assert restart_events(grid) == [("snapshot_restored", "info", None)]


def test_state_after_a_failed_tick_is_not_saved(grid):
    grid.tick()
    grid.ledger.down = True
    with pytest.raises(ChainUnavailable):
        grid.tick()
    grid.store.content = None

    grid.save()

    assert grid.store.content is None


def test_nothing_is_saved_before_the_first_tick():
    grid = RestartingGrid()

    grid.snapshots.save_at_stop()

    assert grid.store.content is None


def test_state_is_saved_at_the_stop(grid):
    grid.tick()
    grid.store.content = None

    grid.snapshots.save_at_stop()

    assert grid.store.content is not None


def test_stop_does_not_wait_for_a_tick_that_hangs(grid):
    grid.tick()
    grid.store.content = None

    with grid.snapshots._lock:
        grid.snapshots.save_at_stop()

    assert grid.store.content is None


def test_failure_of_the_store_does_not_prevent_the_stop(grid):
    grid.tick()
    grid.snapshots._store = BrokenStore(Transient("could not reach the state store"))

    with capture_logs() as log:
        grid.snapshots.save_at_stop()

    assert [entry["event"] for entry in log] == ["snapshot_failed"]


def test_job_that_ended_before_the_restart_is_forgotten_once(grid):
    """The end of a job that has too few confirmations at the restart counts later, once."""
    grid.tick()
    grid.deliver()
    grid.claim(0)
    grid.claim(1)
    (job, *_) = [job for job in grid.ledger._state.jobs.values() if job.state is JobState.SCHEDULED]
    grid.ledger.run(job.id.number)
    grid.ledger.settle(job.id.number, JobState.PANICKED)
    grid.tick()
    grid.restart()
    grid.ledger.mine(CONFIRMATIONS)
    grid.tick()

    reputation = grid.service.snapshot((grid.ledger.head(),)).reputation
    assert reputation.last_events.keys() == {job.provider}
    assert job.id not in grid.service.matched()
