# SPDX-License-Identifier: Apache-2.0
"""Port Ledger: the same behaviour of the fake in memory and the adapter on a real chain."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import pytest
from tests import billing_oracle
from tests.adapters.chain.conftest import RealGrid
from tests.adapters.chain.generations import on_both
from tests.devnet import COIN
from tests.fakes.ledger import HARDWARE, PRICES, SMALL

from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.jobs.job import Affinity, Label, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import Timeouts
from gridstead.errors import ChainUnavailable, TransactionReverted


def job(grid, number):
    return grid.job(number)


def provider(grid):
    return grid.ledger.providers([grid.provider], at_block=grid.ledger.head()).get(grid.provider)


@pytest.fixture
def joined(grid):
    grid.register()
    grid.approve()
    return grid


@pytest.fixture
def claimed(joined):
    number = joined.request("script-1")
    joined.match(number)
    joined.claim()
    return number


def test_unknown_jobs_are_left_out(grid):
    number = grid.request("script-1")

    foreign = replace(grid.job_id(number), contract="0x" + "ff" * 20)

    assert set(grid.jobs(0, number, number + 1, 10**30)) == {grid.job_id(number)}
    assert grid.ledger.jobs([foreign], at_block=grid.ledger.head()) == {}


def test_job_has_the_requested_values(grid, big):
    uses = (Label(key="os", value="linux"),)
    affinity = (
        Affinity(key="cpu", operator=">=", value="8"),
        Affinity(key="gpu", operator="==", value="none"),
    )
    number = grid.request("script-1", resources=big, name="my job", uses=uses, affinity=affinity)

    requested_job = job(grid, number)

    assert requested_job.state is JobState.PENDING
    assert requested_job.id.number == number
    assert (requested_job.customer, requested_job.provider) == (grid.customer, "")
    assert (requested_job.resources, requested_job.uses, requested_job.affinity) == (
        big,
        uses,
        affinity,
    )
    assert (requested_job.batch_location_hash, requested_job.name) == ("script-1", "my job")
    assert (requested_job.escrow, requested_job.final_cost, requested_job.price_per_min) == (
        200 * COIN,
        0,
        0,
    )
    assert requested_job.submitted_at == grid.ledger.head().timestamp
    assert requested_job.state_block == grid.ledger.head().number


def test_provider_that_never_registered_is_left_out(grid):
    assert provider(grid) is None
    assert grid.ledger.waiting_provider(grid.provider, at_block=grid.ledger.head()) is None


def test_registered_provider_waits_for_approval(grid):
    labels = (Label(key="zone", value="b"), Label(key="os", value="linux"))
    grid.register(labels)

    waiting = provider(grid)

    assert (waiting.joined, waiting.waiting, waiting.banned) == (False, True, False)
    assert (waiting.address, waiting.hardware, waiting.prices) == (grid.provider, HARDWARE, PRICES)
    assert waiting.labels == (labels[1], labels[0])
    assert grid.ledger.waiting_provider(grid.provider, at_block=grid.ledger.head()) == waiting


def test_approved_provider_has_joined(joined):
    approved = provider(joined)

    assert (approved.joined, approved.waiting, approved.banned) == (True, False, False)
    assert joined.ledger.waiting_provider(joined.provider, at_block=joined.ledger.head()) is None


def test_matched_job_has_a_price_and_waits_in_the_queue(joined):
    number = joined.request("script-1")

    joined.match(number)

    matched = job(joined, number)
    assert (matched.state, matched.provider) == (JobState.META_SCHEDULED, joined.provider)
    assert matched.price_per_min == billing_oracle.price(SMALL, PRICES)
    sizes = joined.ledger.queue_sizes(joined.provider, at_block=joined.ledger.head())
    assert sizes == QueueSizes(claimable=1, cancelling=0, top_up=0)


def test_claim_empties_the_queue(joined, claimed):
    assert job(joined, claimed).state is JobState.SCHEDULED
    sizes = joined.ledger.queue_sizes(joined.provider, at_block=joined.ledger.head())
    assert sizes == QueueSizes(claimable=0, cancelling=0, top_up=0)


def test_start_is_between_claim_and_now(joined, claimed):
    claimed_at = joined.ledger.head().timestamp
    joined.pass_time(100)
    joined.run(claimed, claimed_at + 40)

    assert job(joined, claimed).state is JobState.RUNNING
    now = joined.ledger.head().timestamp
    expected = claimed_at + 40 if joined.expected.keeps_start else now
    assert job(joined, claimed).started_at == expected


def test_refused_job_is_pending_again(joined, claimed):
    joined.refuse(claimed)

    refused = job(joined, claimed)
    assert (refused.state, refused.provider, refused.price_per_min) == (JobState.PENDING, "", 0)


def test_cancelled_running_job_waits_in_the_cancelling_queue(joined, claimed):
    joined.run(claimed, joined.ledger.head().timestamp)
    joined.cancel(claimed)

    assert job(joined, claimed).state is JobState.RUNNING
    assert job(joined, claimed).cancel_requested
    assert joined.ledger.queue_sizes(joined.provider, at_block=joined.ledger.head()).cancelling == 1


def test_cancelled_pending_job_is_refunded(grid):
    customer, _ = grid.balances()
    number = grid.request("script-1")
    grid.cancel(number)

    assert job(grid, number).state is JobState.CANCELLED
    if hasattr(grid, "devnet"):
        assert grid.balances()[0] == customer


def test_cancelling_an_ended_job_reverts(grid):
    number = grid.request("script-1")
    grid.cancel(number)

    with pytest.raises(TransactionReverted, match="JobHotStatusOnly"):
        grid.cancel(number)


def test_events_of_a_job_are_in_order(joined):
    first = joined.ledger.head().number + 1
    number = joined.request("script-1")
    joined.match(number)
    joined.claim()
    joined.refuse(number)

    events = joined.ledger.events(first=first, end=joined.ledger.head())

    transitions = [event for event in events if event.kind is ChainEventKind.JOB_TRANSITION]
    others = [event for event in events if event not in transitions]
    job_id = joined.job_id(number)
    to_fields = attrgetter("kind", "job_id", "customer", "provider")
    assert list(map(to_fields, others)) == [
        (ChainEventKind.JOB_REQUESTED, job_id, joined.customer, ""),
        (ChainEventKind.JOB_CLAIMED, job_id, joined.customer, joined.provider),
        (ChainEventKind.JOB_REFUSED, job_id, joined.customer, joined.provider),
    ]
    assert [event.job_id for event in transitions] == [job_id] * 3
    positions = [(event.block, event.index) for event in events]
    assert positions == sorted(positions)


def test_provider_changes_emit_events(grid):
    first = grid.ledger.head().number + 1
    grid.register()
    grid.approve()

    events = grid.ledger.events(first=first, end=grid.ledger.head())

    assert [(event.kind, event.provider) for event in events] == [
        (ChainEventKind.PROVIDER_CHANGED, grid.provider)
    ] * 2


def test_reads_are_pinned_to_their_block(grid):
    before = grid.ledger.head()
    number = grid.request("script-1")

    assert grid.ledger.jobs([grid.job_id(number)], at_block=before) == {}
    assert set(grid.jobs(number)) == {grid.job_id(number)}


def test_jobs_of_a_block_are_read_once(chain, monkeypatch):
    grid = RealGrid(chain)
    first, second = (grid.job_id(grid.request(f"script-{number}")) for number in (1, 2))
    head = grid.ledger.head()
    first_job = grid.ledger.jobs([first], at_block=head)
    reads, read = [], chain.node.read

    def record(views, *, at_block):
        reads.append(at_block.number)
        return read(views, at_block=at_block)

    monkeypatch.setattr(chain.node, "read", record)

    assert grid.ledger.jobs([first], at_block=head) == first_job
    assert reads == []
    both = grid.ledger.jobs([first, second], at_block=head)
    assert grid.ledger.jobs([second, first], at_block=head) == both
    assert reads == [head.number]
    grid.cancel(second.number)
    assert job(grid, second.number).state is JobState.CANCELLED
    assert grid.ledger.jobs([second], at_block=head)[second].state is JobState.PENDING


def test_block_is_none_above_the_head(grid):
    head = grid.ledger.head()

    assert grid.ledger.block(head.number) == head
    assert grid.ledger.block(head.number + 1) is None


def test_reorg_replaces_blocks_and_their_jobs(grid):
    grid.mine(3)
    number = grid.request("script-1")
    gone = grid.ledger.head()

    grid.reorg(2)

    assert grid.ledger.block(gone.number).hash != gone.hash
    assert grid.jobs(number) == {}
    with pytest.raises(ChainUnavailable):
        grid.ledger.jobs([grid.job_id(number)], at_block=gone)


def test_number_is_reused_after_a_reorg(grid):
    grid.mine(3)
    number = grid.request("script-1")
    grid.reorg(2)

    assert grid.request("script-2") == number
    assert job(grid, number).batch_location_hash == "script-2"


def test_timeouts_are_those_of_the_grid_at_a_block(grid):
    timeouts = grid.ledger.timeouts(at_block=grid.ledger.head())

    week = 7 * 86_400 if grid.expected.ends_claimed else None
    assert timeouts == Timeouts(claim_blocks=10, start_s=week, settle_grace_s=week)


@on_both
def test_timeouts_change_with_the_block(chain):
    ledger = ChainLedger(chain.node, chain.contracts)
    before = ledger.head()
    constants = chain.contracts.constants
    data = constants.data("setClaimJobTimeout", 300)
    DirectSender(chain.node, chain.admin).transact(
        constants.address, data, name="setClaimJobTimeout"
    )

    assert ledger.timeouts(at_block=ledger.head()).claim_blocks == 300
    assert ledger.timeouts(at_block=before).claim_blocks == 10
