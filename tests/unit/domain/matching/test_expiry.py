# SPDX-License-Identifier: Apache-2.0
"""When a job is taken from its provider, and when it may be matched there again."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import CLAIM_BLOCK, CREDIT, OTHER_ADDRESS, PROVIDER, T0, job, job_id

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.expiry import (
    MARGIN_BLOCKS,
    MARGIN_S,
    ClaimTimeouts,
    ReturnHistory,
    Timeouts,
    expiry,
    is_due,
)

OURS = Timeouts(claim_blocks=10, start_s=3600, settle_grace_s=86_400)
PLAIN = Timeouts(claim_blocks=10)
MATCHED = job(JobState.META_SCHEDULED)
CLAIMED = job(JobState.SCHEDULED)
RUNNING = job(JobState.RUNNING, escrow=100 * CREDIT, price_per_min=3 * CREDIT)
PAID_S = 2000


def head(number=CLAIM_BLOCK, timestamp=T0):
    return Block(number=number, hash=f"0x{number:064x}", timestamp=timestamp)


def event(kind, block, provider=PROVIDER):
    return ChainEvent(kind=kind, block=block, index=0, job_id=job_id(7), provider=provider)


def history_of(*events):
    history = ReturnHistory()
    for kind, block, provider in events:
        history.take(event(kind, block, provider))
    return history


@pytest.mark.parametrize(("late", "due"), [(-1, False), (0, False), (1, True)])
@pytest.mark.parametrize("timeouts", [OURS, PLAIN])
def test_match_is_due_after_the_claim_timeout_and_the_margin(timeouts, late, due):
    last = CLAIM_BLOCK + 10 + MARGIN_BLOCKS

    assert is_due(MATCHED, head=head(last + late, T0 + 10**9), timeouts=timeouts) is due


@pytest.mark.parametrize(("late", "due"), [(-1, False), (0, False), (1, True)])
def test_claim_timeout_counts_from_the_last_claim_of_the_provider(late, due):
    last = CLAIM_BLOCK + 50 + 10 + MARGIN_BLOCKS

    assert (
        is_due(MATCHED, head=head(last + late), timeouts=OURS, last_claim=CLAIM_BLOCK + 50) is due
    )


def test_claim_before_the_match_does_not_extend_the_timeout():
    last = CLAIM_BLOCK + 10 + MARGIN_BLOCKS

    assert is_due(MATCHED, head=head(last + 1), timeouts=OURS, last_claim=CLAIM_BLOCK - 1)


@pytest.mark.parametrize(("late", "due"), [(-1, False), (0, False), (1, True)])
def test_claimed_job_is_due_after_the_start_timeout_and_the_margin(late, due):
    last = T0 + 3600 + MARGIN_S

    assert is_due(CLAIMED, head=head(10**9, last + late), timeouts=OURS, claimed_at=T0) is due


@pytest.mark.parametrize(("late", "due"), [(-1, False), (0, False), (1, True)])
def test_run_is_due_after_paid_time_grace_and_margin(late, due):
    last = RUNNING.started_at + PAID_S + 86_400 + MARGIN_S

    assert is_due(RUNNING, head=head(10**9, last + late), timeouts=OURS) is due


def test_paid_time_of_a_run_is_rounded_up():
    one_wei_more = replace(RUNNING, escrow=RUNNING.escrow + 1)

    assert expiry(one_wei_more, OURS, claimed_at=None) == RUNNING.started_at + PAID_S + 1 + 86_400


@pytest.mark.parametrize("price", [0, 1])
def test_escrow_at_almost_no_price_pays_for_ten_years(price):
    free = replace(RUNNING, price_per_min=price)

    assert expiry(free, OURS, claimed_at=None) == RUNNING.started_at + 10 * 365 * 86_400 + 86_400


@pytest.mark.parametrize(
    ("requested_after", "end"), [(0, 0), (PAID_S - 1, PAID_S - 1), (PAID_S + 1, PAID_S)]
)
@pytest.mark.parametrize("price", [0, 3 * CREDIT])
def test_grace_of_a_cancelled_run_starts_at_the_request(requested_after, end, price):
    since = RUNNING.started_at
    run = replace(
        RUNNING,
        price_per_min=price,
        cancel_requested=True,
        cancel_requested_at=since + requested_after,
    )

    wait_s = requested_after if price == 0 else end
    assert expiry(run, OURS, claimed_at=None) == since + wait_s + 86_400


def test_claimed_job_with_an_unknown_claim_time_is_not_due():
    assert not is_due(CLAIMED, head=head(10**9, T0 + 10**9), timeouts=OURS)


@pytest.mark.parametrize("claimed_job", [CLAIMED, RUNNING])
def test_claimed_job_does_not_expire_on_plain_contracts(claimed_job):
    assert expiry(claimed_job, PLAIN, claimed_at=T0) is None
    assert not is_due(claimed_job, head=head(10**9, T0 + 10**9), timeouts=PLAIN, claimed_at=T0)


@pytest.mark.parametrize("state", [JobState.PENDING, *sorted(COLD)])
def test_job_that_waits_for_no_provider_is_never_due(state):
    assert not is_due(job(state), head=head(10**9, T0 + 10**9), timeouts=OURS, claimed_at=T0)


def test_job_that_came_back_after_a_claim_was_refused():
    history = history_of(
        (ChainEventKind.JOB_CLAIMED, 5, PROVIDER), (ChainEventKind.JOB_REFUSED, 9, PROVIDER)
    )

    assert (history.refused, history.times()) == ({PROVIDER}, {})


def test_job_that_came_back_without_a_claim_had_a_claim_timeout():
    history = history_of(
        (ChainEventKind.JOB_TRANSITION, 4, ""),
        (ChainEventKind.JOB_REFUSED, 5, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 9, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 12, OTHER_ADDRESS),
    )

    assert history.refused == set()
    assert history.claim_timeouts == {
        PROVIDER: ClaimTimeouts(times=2, block=9),
        OTHER_ADDRESS: ClaimTimeouts(times=1, block=12),
    }


def test_claim_counts_only_for_its_own_match():
    history = history_of(
        (ChainEventKind.JOB_CLAIMED, 5, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 9, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 30, OTHER_ADDRESS),
    )

    assert (history.refused, history.times()) == ({PROVIDER}, {OTHER_ADDRESS: 1})


def test_provider_does_not_rest_after_one_claim_timeout():
    assert (
        history_of((ChainEventKind.JOB_REFUSED, 5, PROVIDER)).resting(head=head(5), timeouts=OURS)
        == frozenset()
    )


@pytest.mark.parametrize(("times", "rest"), [(2, 10), (3, 20), (5, 40)])
def test_rest_grows_with_each_claim_timeout(times, rest):
    history = history_of(*((ChainEventKind.JOB_REFUSED, 100 + i, PROVIDER) for i in range(times)))
    last = 100 + times - 1

    assert history.resting(head=head(last + rest - 1), timeouts=OURS) == {PROVIDER}
    assert history.resting(head=head(last + rest), timeouts=OURS) == frozenset()
