# SPDX-License-Identifier: Apache-2.0
"""Tests that restored values are those of the snapshot, and that later changes do not change it.

``tests/services/matching/test_snapshots.py`` tests the snapshot of a whole meta-scheduler.
"""

from __future__ import annotations

from tests.unit.domain.builders import PROVIDER, job, job_id
from tests.unit.domain.matching.grids import (
    ALICE,
    BLOCK,
    FIRST,
    NOW,
    SECOND,
    decide,
    finished_job,
    matcher,
    occupant,
    pending_job,
    provider,
    reservations,
    set_jobs,
)

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import ClaimBlocks, ReturnHistory
from gridstead.domain.matching.matcher import Matcher
from gridstead.domain.matching.reputation import Reputation
from gridstead.domain.matching.shares import HalfLife, Shares
from gridstead.domain.matching.skips import SkipHistory
from gridstead.domain.matching.snapshot import Progress, Snapshot
from gridstead.domain.transactions.calls import Match
from gridstead.domain.transactions.outbox import SkippedCall

HALF_LIFE = HalfLife(16_800)
OCCUPANT = occupant(9, until_s=600)
LARGE_JOB = pending_job(1, 4, escrow=240)
JOBS = [OCCUPANT, LARGE_JOB, occupant(8, 1, until_s=1200, address=SECOND)]


def full_grid():
    """Return a grid after a decision, in which LARGE_JOB has a reservation at FIRST."""
    grid = matcher(provider(), provider(SECOND, price=2), jobs=JOBS)
    assert decide(grid) == []
    assert reservations(grid) == {1: (FIRST, NOW + 600)}
    return grid


def restored(snapshot, rules):
    grid = Matcher(rules)
    grid.restore_providers(snapshot)
    set_jobs(grid, *JOBS)
    grid.restore_occupation(snapshot)
    return grid


def test_block_of_a_snapshot_is_the_newest_one_that_was_read():
    newest, older = (Block(number=number, hash=f"0x{number}", timestamp=NOW) for number in (2, 1))
    progress = Progress(history=(newest, older), decided_block=older, last_moves={})
    parts = dict.fromkeys(["memory", "grid", "matcher", "reputation", "claims", "standby", "skips"])

    assert Snapshot(progress=progress, **parts).block == newest


def test_restored_matcher_has_the_same_state():
    grid = full_grid()

    copy = restored(grid.snapshot(), grid.rules)

    assert copy.snapshot() == grid.snapshot()
    assert reservations(copy) == {1: (FIRST, NOW + 600)}
    assert copy.queues[ALICE].kinds == {job_id(1): copy.kind_of(LARGE_JOB)}


def test_restored_matcher_uses_the_reservation():
    grid = full_grid()
    copy = restored(grid.snapshot(), grid.rules)

    for each in (grid, copy):
        set_jobs(each, finished_job(OCCUPANT))

    assert decide(copy) == decide(grid) == [(1, FIRST)]


def test_restored_cluster_has_the_free_nodes_of_the_placements():
    grid = full_grid()

    copy = restored(grid.snapshot(), grid.rules)

    assert copy.clusters[FIRST].free.free_cpus == 0
    assert copy.clusters[SECOND].free.free_cpus == 3


def test_restored_jobs_without_a_placement_wait_for_room():
    jobs = [occupant(number, until_s=60) for number in (8, 9)]
    grid = matcher(provider(), jobs=jobs)
    assert grid.clusters[FIRST].waiting_count == 1
    snapshot = grid.snapshot()

    copy = Matcher(grid.rules)
    copy.restore_providers(snapshot)
    set_jobs(copy, *jobs)
    copy.restore_occupation(snapshot)

    assert copy.clusters[FIRST].waiting_count == 1


def test_restored_accounts_include_ended_jobs():
    grid = full_grid()
    set_jobs(grid, finished_job(OCCUPANT, cost=20))
    grid.forget_job(OCCUPANT.id, matched_block=BLOCK)
    snapshot = grid.snapshot()

    copy = Matcher(grid.rules)
    copy.restore_providers(snapshot)
    set_jobs(copy, *JOBS[1:])
    copy.restore_occupation(snapshot)

    customer = OCCUPANT.customer
    assert copy.shares.usage(customer, block=BLOCK) == grid.shares.usage(customer, block=BLOCK) > 0


def counted_reputation():
    """Return a reputation with successes, a fault and standings."""
    reputation = Reputation(HALF_LIFE, Shares(HALF_LIFE))
    for number in range(20):
        ended_job = job(
            JobState.PANICKED if number % 2 else JobState.FINISHED,
            customer=f"0x{number:040x}",
            final_cost=0 if number % 2 else 50,
            escrow=60,
            state_block=1000,
        )
        reputation.count_job(ended_job, matched_block=990, returned_by={})
    assert reputation.update(1001)
    return reputation


def test_restored_reputation_has_the_same_standings():
    reputation = counted_reputation()
    copy = Reputation(HALF_LIFE, Shares(HALF_LIFE))

    copy.restore(reputation.snapshot())

    assert copy.snapshot() == reputation.snapshot()
    assert copy.standing(PROVIDER) == reputation.standing(PROVIDER)
    assert copy.max_risk_percent == reputation.max_risk_percent > 0
    assert copy.update(1001) is False
    assert copy.update(5000) == reputation.update(5000)
    assert copy.standings == reputation.standings


def test_restored_claim_blocks_can_be_rewound():
    claim_blocks = ClaimBlocks(confirmations=5)
    claim_blocks.add(FIRST, 10)
    claim_blocks.add(FIRST, 12)
    snapshot = claim_blocks.snapshot()
    claim_blocks.add(FIRST, 13)

    copy = ClaimBlocks(confirmations=5)
    copy.restore(snapshot)

    assert copy.last(FIRST) == 12
    copy.rewind(12)
    assert copy.last(FIRST) == 10


def test_history_of_returns_lists_its_events():
    history = ReturnHistory()
    events = [
        ChainEvent(kind=ChainEventKind.JOB_CLAIMED, block=5, index=0, provider=FIRST),
        ChainEvent(kind=ChainEventKind.JOB_REFUSED, block=6, index=0, provider=FIRST),
    ]
    for event in events:
        history.apply(event)

    assert history.events == tuple(events)


def test_restored_skip_history_excludes_the_same_providers():
    history = SkipHistory()
    pending = job(JobState.PENDING, provider="")
    skipped_call = SkippedCall(
        call=Match(job_key=pending.job_key, provider=PROVIDER),
        error="PriceAboveLimit(2, 1)",
        requested_at=NOW - 1,
        seen_at=NOW,
    )
    history.add(skipped_call)
    snapshot = history.snapshot()
    history.forget_old(NOW + 100_000)

    copy = SkipHistory()
    copy.restore(snapshot)

    assert copy.excluded_from(pending.job_key).keys() == {PROVIDER}
    assert copy.counts()["PriceAboveLimit"] == 1
    assert history.excluded_from(pending.job_key) == {}
