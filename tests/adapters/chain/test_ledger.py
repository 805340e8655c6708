# SPDX-License-Identifier: Apache-2.0
"""The behaviour of port Ledger. The tests run on the fake in memory, and on a real chain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests import billing_oracle
from tests.adapters.chain.generations import on_all
from tests.adapters.chain.grids import RealGrid, join_real_grid, queue_sizes
from tests.devnet import COIN
from tests.fakes.ledger import HARDWARE, PRICES, SMALL

from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.jobs.job import Affinity, Label, QueueSizes
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.expiry import Timeouts
from gridstead.errors import ChainUnavailable, TransactionReverted


def provider(grid):
    """Return the grid's provider at the newest block; None if it never registered."""
    return grid.ledger.providers([grid.provider], at_block=grid.ledger.head()).get(grid.provider)


def waiting_provider(grid):
    """Return the grid's provider if it waits for approval, else None."""
    return grid.ledger.waiting_provider(grid.provider, at_block=grid.ledger.head())


def test_unknown_jobs_are_omitted(grid):
    number = grid.request("script-1")

    id_of_other_contract = replace(grid.job_id(number), contract="0x" + "ff" * 20)

    assert set(grid.jobs(0, number, number + 1, 10**30)) == {grid.job_id(number)}
    assert grid.ledger.jobs([id_of_other_contract], at_block=grid.ledger.head()) == {}


def test_job_has_the_requested_values(grid, large_resources):
    uses = (Label(key="os", value="linux"),)
    affinity = (
        Affinity(key="cpu", operator=">=", value="8"),
        Affinity(key="gpu", operator="==", value="none"),
    )
    number = grid.request(
        "script-1", resources=large_resources, name="my job", uses=uses, affinity=affinity
    )

    job = grid.job(number)

    assert job.state is JobState.PENDING
    assert job.id.number == number
    assert (job.customer, job.provider) == (grid.customer, "")
    assert job.resources == large_resources
    assert job.uses == uses
    assert job.affinity == affinity
    assert (job.batch_location_hash, job.name) == ("script-1", "my job")
    assert job.escrow == 200 * COIN
    assert (job.final_cost, job.price_per_min) == (0, 0)
    assert job.submitted_at == grid.ledger.head().timestamp
    assert job.state_block == grid.ledger.head().number


def test_provider_that_never_registered_is_omitted(grid):
    assert provider(grid) is None
    assert waiting_provider(grid) is None


def test_registered_provider_waits_for_approval(grid):
    zone, operating_system = Label(key="zone", value="b"), Label(key="os", value="linux")
    grid.register([zone, operating_system])

    new_provider = provider(grid)

    assert (new_provider.is_joined, new_provider.is_waiting, new_provider.is_banned) == (
        False,
        True,
        False,
    )
    assert new_provider.address == grid.provider
    assert (new_provider.hardware, new_provider.prices) == (HARDWARE, PRICES)
    assert new_provider.labels == (operating_system, zone)  # sorted by key
    assert waiting_provider(grid) == new_provider


def test_approved_provider_has_joined(joined_grid):
    approved_provider = provider(joined_grid)

    assert (
        approved_provider.is_joined,
        approved_provider.is_waiting,
        approved_provider.is_banned,
    ) == (True, False, False)
    assert waiting_provider(joined_grid) is None


def test_record_that_waits_is_not_an_approved_record(grid):
    grid.register()

    assert grid.ledger.approved_providers([grid.provider], at_block=grid.ledger.head()) == {}


def test_approved_record_is_read_without_a_later_record_that_waits(joined_grid):
    joined_grid.register(prices=replace(PRICES, cpu_per_min=1))
    head = joined_grid.ledger.head()

    approved = joined_grid.ledger.approved_providers([joined_grid.provider], at_block=head)

    assert set(approved) == {joined_grid.provider}
    record = approved[joined_grid.provider]
    assert (record.is_joined, record.is_waiting, record.is_banned) == (True, False, False)
    assert (record.hardware, record.prices) == (HARDWARE, PRICES)


def test_matched_job_has_a_price_and_waits_in_the_queue(joined_grid):
    number = joined_grid.request("script-1")

    joined_grid.match(number)

    job = joined_grid.job(number)
    assert (job.state, job.provider) == (JobState.META_SCHEDULED, joined_grid.provider)
    assert job.price_per_min == billing_oracle.price(SMALL, PRICES)
    assert queue_sizes(joined_grid) == QueueSizes(claimable=1, cancelling=0, top_up=0)


def test_claim_empties_the_queue(joined_grid, claimed_number):
    assert joined_grid.job(claimed_number).state is JobState.SCHEDULED
    assert queue_sizes(joined_grid) == QueueSizes(claimable=0, cancelling=0, top_up=0)


def test_reported_start_is_kept_if_the_contracts_support_it(joined_grid, claimed_number):
    claimed_at = joined_grid.ledger.head().timestamp
    joined_grid.pass_time(100)
    joined_grid.run(claimed_number, claimed_at + 40)

    assert joined_grid.job(claimed_number).state is JobState.RUNNING
    reported_at = joined_grid.ledger.head().timestamp
    expected = claimed_at + 40 if joined_grid.expected.keeps_reported_start else reported_at
    assert joined_grid.job(claimed_number).started_at == expected


def test_refused_job_is_pending_again(joined_grid, claimed_number):
    joined_grid.refuse(claimed_number)

    job = joined_grid.job(claimed_number)
    assert (job.state, job.provider, job.price_per_min) == (JobState.PENDING, "", 0)


def test_cancelled_running_job_waits_in_the_cancelling_queue(joined_grid, claimed_number):
    joined_grid.run(claimed_number, joined_grid.ledger.head().timestamp)
    joined_grid.cancel(claimed_number)

    job = joined_grid.job(claimed_number)
    assert job.state is JobState.RUNNING
    assert job.cancel_requested
    assert queue_sizes(joined_grid).cancelling == 1


def test_cancelled_pending_job_is_refunded(grid):
    before, _ = grid.balances()
    number = grid.request("script-1")
    grid.cancel(number)

    assert grid.job(number).state is JobState.CANCELLED
    # The fake ledger mints each escrow, so the balance is compared only on a real chain.
    if hasattr(grid, "devnet"):
        after, _ = grid.balances()
        assert after == before


def test_cancelling_an_ended_job_reverts(grid):
    number = grid.request("script-1")
    grid.cancel(number)

    with pytest.raises(TransactionReverted, match="JobHotStatusOnly"):
        grid.cancel(number)


def test_jobs_are_read_at_the_requested_block(grid):
    before = grid.ledger.head()
    number = grid.request("script-1")

    assert grid.ledger.jobs([grid.job_id(number)], at_block=before) == {}
    assert set(grid.jobs(number)) == {grid.job_id(number)}


@pytest.fixture
def read_blocks(chain, monkeypatch):
    """The numbers of the blocks that were read from the node, in order."""
    numbers = []
    read_views = chain.node.read

    def record(views, *, at_block):
        numbers.append(at_block.number)
        return read_views(views, at_block=at_block)

    monkeypatch.setattr(chain.node, "read", record)
    return numbers


def test_jobs_of_a_block_are_read_once(chain, read_blocks):
    grid = RealGrid(chain)
    first = grid.job_id(grid.request("script-1"))
    second = grid.job_id(grid.request("script-2"))
    head = grid.ledger.head()
    first_job = grid.ledger.jobs([first], at_block=head)
    read_blocks.clear()

    assert grid.ledger.jobs([first], at_block=head) == first_job
    assert read_blocks == []
    both_jobs = grid.ledger.jobs([first, second], at_block=head)
    assert grid.ledger.jobs([second, first], at_block=head) == both_jobs
    assert read_blocks == [head.number]


def record_sizes(chain, monkeypatch):
    """Return a list that receives the number of views of each read from the node."""
    read_views = chain.node.read
    sizes = []

    def record_size(views, *, at_block):
        sizes.append(len(views))
        return read_views(views, at_block=at_block)

    monkeypatch.setattr(chain.node, "read", record_size)
    return sizes


@on_all
def test_two_views_are_read_for_each_approved_provider(chain, monkeypatch):
    grid = join_real_grid(chain)
    head = grid.ledger.head()
    sizes = record_sizes(chain, monkeypatch)

    addresses = [grid.provider, grid.customer, chain.admin.address]
    assert set(grid.ledger.approved_providers(addresses, at_block=head)) == {grid.provider}
    assert sum(sizes) == 2 * len(addresses)


def test_requests_to_cancel_need_no_further_reads(chain, monkeypatch):
    """The times up to which runs are billed are read with the terms of the jobs."""
    grid = join_real_grid(chain)
    numbers = [grid.request(f"script-{index}") for index in range(3)]
    for number in numbers:
        grid.match(number)
    grid.claim()
    ids = [grid.job_id(number) for number in numbers]
    sizes = record_sizes(chain, monkeypatch)
    grid.ledger.jobs(ids, at_block=grid.ledger.head())
    sizes_without_requests = sizes.copy()
    for number in numbers:
        grid.cancel(number)
        grid.run(number, grid.ledger.head().timestamp - 1)
    sizes.clear()

    jobs = grid.ledger.jobs(ids, at_block=grid.ledger.head()).values()
    assert sizes == sizes_without_requests
    assert [job.state for job in jobs] == [JobState.RUNNING] * len(numbers)
    assert [job.bill_until for job in jobs] == [job.cancel_requested_at for job in jobs]


def test_job_at_an_older_block_keeps_its_state(chain):
    grid = RealGrid(chain)
    number = grid.request("script-1")
    job_id, head = grid.job_id(number), grid.ledger.head()
    assert grid.ledger.jobs([job_id], at_block=head)[job_id].state is JobState.PENDING

    grid.cancel(number)

    assert grid.job(number).state is JobState.CANCELLED
    assert grid.ledger.jobs([job_id], at_block=head)[job_id].state is JobState.PENDING


def test_block_above_the_head_is_none(grid):
    head = grid.ledger.head()

    assert grid.ledger.block(head.number) == head
    assert grid.ledger.block(head.number + 1) is None


def test_reorg_replaces_blocks_and_their_jobs(grid):
    grid.mine(3)
    number = grid.request("script-1")
    removed_block = grid.ledger.head()

    grid.reorg(2)

    assert grid.ledger.block(removed_block.number).hash != removed_block.hash
    assert grid.jobs(number) == {}
    with pytest.raises(ChainUnavailable):
        grid.ledger.jobs([grid.job_id(number)], at_block=removed_block)


def test_job_number_is_reused_after_a_reorg(grid):
    grid.mine(3)
    number = grid.request("script-1")
    grid.reorg(2)

    assert grid.request("script-2") == number
    assert grid.job(number).batch_location_hash == "script-2"


def test_job_that_ended_without_a_start_has_no_start(joined_grid):
    number = joined_grid.request("script-1")
    joined_grid.pass_time(600)
    joined_grid.cancel(number)

    job = joined_grid.job(number)

    assert (job.state, job.started_at) == (JobState.CANCELLED, 0)
    assert job.ended_at == joined_grid.ledger.head().timestamp


def test_timeouts_are_those_of_the_contracts(grid):
    timeouts = grid.ledger.timeouts(at_block=grid.ledger.head())

    week_s = 7 * 86_400 if grid.expected.expires_claimed_jobs else None
    assert timeouts == Timeouts(claim_blocks=10, start_s=week_s, settle_grace_s=week_s)


@on_all
def test_timeouts_are_read_at_the_requested_block(chain):
    ledger = ChainLedger(chain.node, chain.contracts)
    before = ledger.head()
    constants = chain.contracts.constants
    data = constants.data("setClaimJobTimeout", 300)
    DirectSender(chain.node, chain.admin).transact(
        constants.address, data, name="setClaimJobTimeout"
    )

    assert ledger.timeouts(at_block=ledger.head()).claim_blocks == 300
    assert ledger.timeouts(at_block=before).claim_blocks == 10
