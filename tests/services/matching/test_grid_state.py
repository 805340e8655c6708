# SPDX-License-Identifier: Apache-2.0
"""Tests that the state on which matches are decided agrees with the chain, also after reorgs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from tests.fakes.ledger import CREDIT, NOBODY, PRICES, FakeLedger
from tests.services.matching.test_occupation import (
    CONFIRMATIONS,
    CUSTOMER,
    HALF_NODE,
    HARDWARE,
    OTHER_CUSTOMER,
    PROVIDER,
    SECOND_PROVIDER,
    WHOLE_NODE,
    MatchingGrid,
    credits_of,
    new_ledger,
    request,
)

from gridstead.domain.matching.expiry import MARGIN_BLOCKS
from gridstead.errors import ChainUnavailable


class LaggingLedger(FakeLedger):
    """A ledger behind a load balancer. A server may lag by some blocks.

    Attributes:
        lag: By how many blocks the server lags that answers now.
    """

    lag = 0

    def head(self):
        newest_block = super().head()
        return super().block(newest_block.number - self.lag)

    def block(self, number):
        return super().block(number) if number <= self.head().number else None


@pytest.fixture
def ledger():
    return new_ledger(LaggingLedger)


@pytest.fixture
def grid(ledger):
    return MatchingGrid(ledger)


def mine_and_tick(grid, count):
    """Tick after each of some empty blocks."""
    for _ in range(count):
        grid.ledger.mine()
        grid.service.tick()


@pytest.mark.parametrize("lag", [1, CONFIRMATIONS, CONFIRMATIONS + 1])
def test_transfer_counts_although_a_server_lags(ledger, grid, lag):
    request(ledger, 1, escrow=50 * CREDIT)
    mine_and_tick(grid, 4)
    ledger.mint(CUSTOMER, 70 * CREDIT)
    mine_and_tick(grid, 1)

    ledger.lag = lag
    # After a lag of more blocks, the follower reads nothing from this server.
    with pytest.raises(ChainUnavailable) if lag > CONFIRMATIONS else nullcontext():
        grid.service.tick()
    ledger.lag = 0
    mine_and_tick(grid, CONFIRMATIONS + 1)

    assert credits_of(grid, CUSTOMER) == 120


def test_transfers_count_after_a_reorg_of_all_blocks_without_confirmations(ledger, grid):
    ledger.mint(CUSTOMER, 70 * CREDIT)
    request(ledger, 1, escrow=50 * CREDIT)
    mine_and_tick(grid, 8)
    ledger.mine()
    tick = grid.service._follower.tick

    def tick_before_the_next_block(*arguments, **options):
        followed_to = tick(*arguments, **options)
        ledger.mine()
        return followed_to

    grid.service._follower.tick = tick_before_the_next_block
    grid.service.tick()
    grid.service._follower.tick = tick
    ledger.reorg(CONFIRMATIONS + 1)  # the new block, and CONFIRMATIONS blocks before it
    mine_and_tick(grid, CONFIRMATIONS)

    assert credits_of(grid, CUSTOMER) == 120


@pytest.mark.parametrize(
    ("first_size", "second_size", "has_room"),
    [(HALF_NODE, WHOLE_NODE, False), (WHOLE_NODE, HALF_NODE, True)],
)
def test_job_that_reuses_a_number_after_a_reorg_occupies_its_own_size(
    ledger, grid, first_size, second_size, has_room
):
    mine_and_tick(grid, 6)
    request(ledger, 1, resources=first_size)
    grid.tick()
    grid.service.tick()

    ledger.reorg(2, length=1)
    ledger.request(OTHER_CUSTOMER, resources=second_size)
    ledger.match(1, PROVIDER)
    grid.service.tick()
    (job,) = request(ledger, 1)
    grid.tick()

    assert grid.providers_of(job) == [PROVIDER if has_room else ""]


def test_malformed_job_that_reuses_a_number_after_a_reorg_occupies_nothing(ledger, grid):
    mine_and_tick(grid, 6)
    request(ledger, 1, resources=WHOLE_NODE)
    grid.tick()
    grid.service.tick()

    ledger.reorg(2, length=1)
    ledger.request(OTHER_CUSTOMER, script="not a valid id")
    (job,) = request(ledger, 1, resources=WHOLE_NODE)
    for _ in range(3):
        grid.tick()

    assert grid.providers_of(job) == [PROVIDER]


def test_malformed_job_gives_its_reason_to_no_other_job(ledger, grid):
    request(ledger, 2)
    ledger.request(CUSTOMER, resources=HALF_NODE, script="not a valid id")
    (job,) = request(ledger, 1)

    grid.tick()

    assert grid.service.pending()[job.id].startswith("waits for a provider")


def test_transfers_of_an_idle_grid_are_not_kept(ledger, grid):
    for _ in range(10):
        ledger.mint(CUSTOMER, CREDIT)
        mine_and_tick(grid, 1)

    assert len(grid.service._grid._new_transfers) == CONFIRMATIONS


def test_empty_transfers_are_not_kept(ledger, grid):
    ledger._contracts()._move(NOBODY, CUSTOMER, 0)
    ledger.mine()

    grid.service.tick()

    assert grid.service._grid._new_transfers == []


@pytest.mark.parametrize("is_restarted", [False, True])
def test_added_credits_count_as_weight_only_from_their_block_on(ledger, grid, is_restarted):
    ledger.mint(OTHER_CUSTOMER, 1000 * CREDIT)
    (old_job,) = request(ledger, 1, escrow=CREDIT)
    grid.tick()
    ledger.claim(PROVIDER)
    ledger.run(old_job.id.number)
    ledger.mine(1000)
    grid.service.tick()

    ledger.top_up(old_job.id.number, 1000 * CREDIT)
    if is_restarted:
        grid.service = grid.start(grid.rules)
    mine_and_tick(grid, 2)

    shares = grid.service._grid.matcher.shares
    block = ledger.head().number
    assert shares.weight(OTHER_CUSTOMER, block=block) > 900 * CREDIT
    assert shares.weight(CUSTOMER, block=block) < 10 * CREDIT


def test_job_does_not_wait_for_a_cheaper_provider_whose_job_is_not_settled(ledger, grid):
    """The cheaper provider's job was paid for one minute, an hour ago."""
    dearer = replace(PRICES, cpu_per_min=PRICES.cpu_per_min * 103 // 100)
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE, prices=dearer)
    (late_job,) = request(ledger, 1, resources=WHOLE_NODE, escrow=CREDIT)
    grid.tick()
    ledger.claim(PROVIDER)
    ledger.run(late_job.id.number)
    ledger.clock.advance(3600)
    ledger.mine()

    (job,) = request(ledger, 1, resources=WHOLE_NODE)
    grid.tick()

    assert grid.providers_of(job) == [SECOND_PROVIDER]


def test_job_does_not_wait_for_a_cheaper_provider_that_does_not_start_its_job(ledger, grid):
    dearer = replace(PRICES, cpu_per_min=PRICES.cpu_per_min * 2)
    ledger.add_provider(SECOND_PROVIDER, hardware=HARDWARE, prices=dearer)
    request(ledger, 1, resources=WHOLE_NODE, escrow=CREDIT)
    grid.tick()
    ledger.claim(PROVIDER)
    (job,) = request(ledger, 1, resources=WHOLE_NODE)
    grid.tick()
    assert grid.providers_of(job) == [""]

    ledger.mine(101)
    grid.tick()

    assert grid.providers_of(job) == [SECOND_PROVIDER]


def test_claim_timeout_that_is_delivered_again_counts_once(ledger, grid):
    (job,) = request(ledger, 1)
    grid.tick()
    ledger.set_draining(PROVIDER, draining=True)
    ledger.mine(ledger.timeouts(at_block=ledger.head()).claim_blocks + MARGIN_BLOCKS)
    grid.tick()
    assert grid.providers_of(job) == [""]
    mine_and_tick(grid, 1)

    ledger.lag = 1
    grid.service.tick()
    ledger.lag = 0
    ledger.set_draining(PROVIDER, draining=False)
    grid.tick()

    # After two claim timeouts, the provider would be excluded for some blocks.
    assert grid.providers_of(job) == [PROVIDER]
