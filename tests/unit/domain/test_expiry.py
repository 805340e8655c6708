# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from tests.unit.domain.builders import CLAIM_BLOCK, CREDIT, OTHER, T0, US, job

from gridstead.domain.events import ChainEvent, ChainEventKind
from gridstead.domain.expiry import (
    MARGIN_BLOCKS,
    MARGIN_S,
    ClaimTimeouts,
    ReturnHistory,
    Timeouts,
    expiry,
    is_due,
)
from gridstead.domain.job import Block
from gridstead.domain.lifecycle import COLD, JobState

OURS = Timeouts(claim_blocks=10, start_s=3600, settle_grace_s=86_400)
PLAIN = Timeouts(claim_blocks=10)
MATCHED = job(JobState.META_SCHEDULED)
CLAIMED = job(JobState.SCHEDULED)
RUNNING = job(JobState.RUNNING, escrow=100 * CREDIT, price_per_min=3 * CREDIT)
PAID_S = 2000


def head(number=CLAIM_BLOCK, timestamp=T0):
    return Block(number=number, hash=f"0x{number:064x}", timestamp=timestamp)


def event(kind, block, provider=US):
    return ChainEvent(kind=kind, block=block, index=0, job_number=7, provider=provider)


def returns(*told):
    made = ReturnHistory()
    for kind, block, provider in told:
        made.take(event(kind, block, provider))
    return made


@pytest.mark.parametrize(("late", "answer"), [(-1, False), (0, False), (1, True)])
@pytest.mark.parametrize("timeouts", [OURS, PLAIN])
def test_a_match_is_due_from_the_block_after_its_blocks_and_the_margin_on(timeouts, late, answer):
    last = CLAIM_BLOCK + 10 + MARGIN_BLOCKS

    assert is_due(MATCHED, head=head(last + late, T0 + 10**9), timeouts=timeouts) is answer


@pytest.mark.parametrize(("late", "answer"), [(-1, False), (0, False), (1, True)])
def test_a_match_waits_while_its_provider_claims_others(late, answer):
    last = CLAIM_BLOCK + 50 + 10 + MARGIN_BLOCKS

    assert (
        is_due(MATCHED, head=head(last + late), timeouts=OURS, last_claim=CLAIM_BLOCK + 50)
        is answer
    )


def test_a_claim_before_the_match_gives_no_more_time():
    last = CLAIM_BLOCK + 10 + MARGIN_BLOCKS

    assert is_due(MATCHED, head=head(last + 1), timeouts=OURS, last_claim=CLAIM_BLOCK - 1)


@pytest.mark.parametrize(("late", "answer"), [(-1, False), (0, False), (1, True)])
def test_a_claim_is_due_from_the_second_after_the_start_timeout_and_the_margin_on(late, answer):
    last = T0 + 3600 + MARGIN_S

    assert is_due(CLAIMED, head=head(10**9, last + late), timeouts=OURS, claimed_at=T0) is answer


@pytest.mark.parametrize(("late", "answer"), [(-1, False), (0, False), (1, True)])
def test_a_run_is_due_from_the_second_after_paid_time_grace_and_margin_on(late, answer):
    last = RUNNING.started_at + PAID_S + 86_400 + MARGIN_S

    assert is_due(RUNNING, head=head(10**9, last + late), timeouts=OURS) is answer


def test_paid_time_of_a_run_rounds_up():
    one_wei_more = replace(RUNNING, escrow=RUNNING.escrow + 1)

    assert expiry(one_wei_more, OURS, claimed_at=None) == RUNNING.started_at + PAID_S + 1 + 86_400


@pytest.mark.parametrize("price", [0, 1])
def test_a_lock_at_next_to_no_price_buys_ten_years(price):
    free = replace(RUNNING, price_per_min=price)

    assert expiry(free, OURS, claimed_at=None) == RUNNING.started_at + 10 * 365 * 86_400 + 86_400


@pytest.mark.parametrize(("asked", "end"), [(0, 0), (PAID_S - 1, PAID_S - 1), (PAID_S + 1, PAID_S)])
@pytest.mark.parametrize("price", [0, 3 * CREDIT])
def test_a_run_that_is_to_be_cancelled_waits_from_the_request_on(asked, end, price):
    since = RUNNING.started_at
    run = replace(
        RUNNING, price_per_min=price, cancel_requested=True, cancel_requested_at=since + asked
    )

    assert expiry(run, OURS, claimed_at=None) == since + (asked if price == 0 else end) + 86_400


def test_a_claim_of_unknown_time_is_not_due():
    assert not is_due(CLAIMED, head=head(10**9, T0 + 10**9), timeouts=OURS)


@pytest.mark.parametrize("one", [CLAIMED, RUNNING])
def test_plain_contracts_end_no_claimed_job(one):
    assert expiry(one, PLAIN, claimed_at=T0) is None
    assert not is_due(one, head=head(10**9, T0 + 10**9), timeouts=PLAIN, claimed_at=T0)


@pytest.mark.parametrize("state", [JobState.PENDING, *sorted(COLD)])
def test_a_job_that_waits_for_no_provider_is_never_due(state):
    assert not is_due(job(state), head=head(10**9, T0 + 10**9), timeouts=OURS, claimed_at=T0)


def test_a_job_that_was_claimed_and_came_back_was_refused():
    found = returns((ChainEventKind.JOB_CLAIMED, 5, US), (ChainEventKind.JOB_REFUSED, 9, US))

    assert (found.refused, found.times()) == ({US}, {})


def test_a_job_that_came_back_unclaimed_was_let_lie():
    found = returns(
        (ChainEventKind.JOB_TRANSITION, 4, ""),
        (ChainEventKind.JOB_REFUSED, 5, US),
        (ChainEventKind.JOB_REFUSED, 9, US),
        (ChainEventKind.JOB_REFUSED, 12, OTHER),
    )

    assert found.refused == set()
    assert found.claim_timeouts == {
        US: ClaimTimeouts(times=2, block=9),
        OTHER: ClaimTimeouts(times=1, block=12),
    }


def test_a_claim_speaks_for_one_match_only():
    found = returns(
        (ChainEventKind.JOB_CLAIMED, 5, US),
        (ChainEventKind.JOB_REFUSED, 9, US),
        (ChainEventKind.JOB_REFUSED, 30, OTHER),
    )

    assert (found.refused, found.times()) == ({US}, {OTHER: 1})


def test_whoever_let_a_job_lie_once_needs_no_rest():
    assert (
        returns((ChainEventKind.JOB_REFUSED, 5, US)).resting(head=head(5), timeouts=OURS)
        == frozenset()
    )


@pytest.mark.parametrize(("times", "rest"), [(2, 10), (3, 20), (5, 40)])
def test_each_further_time_it_rests_for_longer(times, rest):
    found = returns(*((ChainEventKind.JOB_REFUSED, 100 + turn, US) for turn in range(times)))
    last = 100 + times - 1

    assert found.resting(head=head(last + rest - 1), timeouts=OURS) == {US}
    assert found.resting(head=head(last + rest), timeouts=OURS) == frozenset()
