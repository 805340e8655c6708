# SPDX-License-Identifier: Apache-2.0
"""Contract tests of the events that the ledger reads, in memory and on each generation."""

from __future__ import annotations

import pytest
from tests.adapters.chain.grids import join_real_grid
from tests.devnet import COIN

from gridstead.adapters.transactions.direct import DirectSender
from gridstead.domain.chain.events import ChainEventKind
from gridstead.domain.jobs.lifecycle import JobState


def test_events_of_a_job_are_in_order(joined_grid):
    first_block = joined_grid.ledger.head().number + 1
    number = joined_grid.request("script-1")
    joined_grid.match(number)
    joined_grid.claim()
    joined_grid.refuse(number)

    events = joined_grid.ledger.events(first=first_block, end=joined_grid.ledger.head())

    transitions, other_events = [], []
    for event in events:
        assert event.job_id == joined_grid.job_id(number)
        if event.kind is ChainEventKind.JOB_TRANSITION:
            transitions.append(event)
        else:
            other_events.append((event.kind, event.customer, event.provider))
    assert other_events == [
        (ChainEventKind.JOB_REQUESTED, joined_grid.customer, ""),
        (ChainEventKind.JOB_CLAIMED, joined_grid.customer, joined_grid.provider),
        (ChainEventKind.JOB_REFUSED, joined_grid.customer, joined_grid.provider),
    ]
    assert len(transitions) == 3  # the match, the claim and the refusal
    # The ledger returns the events in the order of the chain.
    positions = [(event.block, event.index) for event in events]
    assert positions == sorted(positions)


def test_transition_event_has_the_new_state(joined_grid):
    first_block = joined_grid.ledger.head().number + 1
    number = joined_grid.request("script-1")
    joined_grid.match(number)
    joined_grid.claim()

    events = joined_grid.ledger.events(first=first_block, end=joined_grid.ledger.head())

    states = [event.state for event in events if event.kind is ChainEventKind.JOB_TRANSITION]
    assert states == [JobState.META_SCHEDULED, JobState.SCHEDULED]


def test_top_up_is_an_event_with_its_amount(joined_grid):
    number = joined_grid.request("script-1")
    joined_grid.match(number)
    joined_grid.claim()
    first_block = joined_grid.ledger.head().number + 1
    joined_grid.top_up(number, 3 * COIN)

    events = joined_grid.ledger.events(first=first_block, end=joined_grid.ledger.head())

    top_ups = [event for event in events if event.kind is ChainEventKind.JOB_TOPPED_UP]
    amounts = [(event.job_id, event.amount) for event in top_ups]
    has_event = joined_grid.expected.has_own_events
    assert amounts == ([(joined_grid.job_id(number), 3 * COIN)] if has_event else [])


def test_request_to_cancel_is_an_event(joined_grid, claimed_number):
    first_block = joined_grid.ledger.head().number + 1
    joined_grid.cancel(claimed_number)

    events = joined_grid.ledger.events(first=first_block, end=joined_grid.ledger.head())

    requests = [event for event in events if event.kind is ChainEventKind.JOB_CANCEL_REQUESTED]
    job_ids = [event.job_id for event in requests]
    has_event = joined_grid.expected.has_own_events
    assert job_ids == ([joined_grid.job_id(claimed_number)] if has_event else [])


@pytest.mark.parametrize("generation", ["ours", "2.0.0"], indirect=True)
@pytest.mark.parametrize(
    ("function", "arguments"), [("setPrices", ((1, 2, 3),)), ("setDraining", (True,))]
)
def test_change_by_a_provider_is_an_event(chain, function, arguments):
    assert_change_is_an_event(chain, chain.provider, function, *arguments)


@pytest.mark.parametrize("generation", ["ours", "2.0.0", "1.2"], indirect=True)
@pytest.mark.parametrize("function", ["ban", "remove"])
def test_exclusion_of_a_provider_is_an_event(chain, function):
    assert_change_is_an_event(chain, chain.admin, function, chain.provider.address)


def assert_change_is_an_event(chain, wallet, function, *arguments):
    """Let the wallet call a function of ProviderManager. It must emit one event."""
    grid = join_real_grid(chain)
    first_block = grid.ledger.head().number + 1
    payload = chain.contracts.providers.call(function, *arguments)
    DirectSender(chain.node, wallet).transact(payload.to, payload.data, name=function)

    (event,) = grid.ledger.events(first=first_block, end=grid.ledger.head())

    assert (event.kind, event.provider) == (ChainEventKind.PROVIDER_CHANGED, grid.provider)


def test_transfers_are_events_if_requested(joined_grid):
    ledger = joined_grid.ledger_with_transfers()
    first_block = ledger.head().number + 1
    number = joined_grid.request("script-1")
    escrow = joined_grid.job(number).escrow
    joined_grid.cancel(number)

    events = ledger.events(first=first_block, end=ledger.head())

    transfers = [
        (event.sender, event.receiver, event.amount)
        for event in events
        if event.kind is ChainEventKind.CREDITS_TRANSFERRED
    ]
    (escrow_account,) = [
        receiver for sender, receiver, _ in transfers if sender == joined_grid.customer
    ]
    assert (joined_grid.customer, escrow_account, escrow) in transfers
    assert (escrow_account, joined_grid.customer, escrow) in transfers


def test_only_the_approval_of_a_provider_is_an_event(grid):
    first_block = grid.ledger.head().number + 1
    grid.register()
    grid.approve()

    events = grid.ledger.events(first=first_block, end=grid.ledger.head())

    assert [event.kind for event in events] == [ChainEventKind.PROVIDER_APPROVED]
    assert events[0].provider == grid.provider
