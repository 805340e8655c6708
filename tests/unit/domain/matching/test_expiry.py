# SPDX-License-Identifier: Apache-2.0
"""The time at which a job expires, and the providers to which it may be matched again.

A job is due if the contracts allow the job to expire and a safety margin has passed since then. A
job is cold if it has ended. "Plain contracts" are the contracts of DeepSquare 1.2, from which the
contracts of Gridstead are derived.
"""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CLAIM_BLOCK,
    CONTRACT,
    CREDIT,
    OTHER_ADDRESS,
    PROVIDER,
    T0,
    job,
    job_id,
)

from gridstead.domain.chain.events import ChainEvent, ChainEventKind
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.matching.expiry import (
    MARGIN_BLOCKS,
    MARGIN_S,
    NOT_CLAIMED,
    ClaimBlocks,
    ClaimTimeouts,
    ReturnHistory,
    Timeouts,
    expiry,
    has_expired,
)

GRACE_S = 86_400
TEN_YEARS_S = 10 * 365 * 86_400
TIMEOUTS = Timeouts(claim_blocks=10, start_s=3600, settle_grace_s=GRACE_S)
PLAIN_TIMEOUTS = Timeouts(claim_blocks=10)  # On plain contracts, claimed jobs never expire.
MATCHED = job(JobState.META_SCHEDULED)
CLAIMED = job(JobState.SCHEDULED)
RUNNING = job(JobState.RUNNING, escrow=100 * CREDIT, price_per_min=3 * CREDIT)
PAID_S = 2000  # the time that the escrow of RUNNING pays for


def head(number=CLAIM_BLOCK, timestamp=T0):
    return Block(number=number, hash=f"0x{number:064x}", timestamp=timestamp)


def event(kind, block, provider=PROVIDER):
    return ChainEvent(kind=kind, block=block, index=0, job_id=job_id(7), provider=provider)


def history_of(*events):
    """Return the history after these events, which are (kind, block number, provider)."""
    history = ReturnHistory()
    for kind, block, provider in events:
        history.apply(event(kind, block, provider))
    return history


# Offsets from the last block or second before a job is due, and whether the job is due then.
BEFORE_AND_AFTER_THE_LIMIT = [(-1, False), (0, False), (1, True)]


@pytest.mark.parametrize(("offset", "expected"), BEFORE_AND_AFTER_THE_LIMIT)
@pytest.mark.parametrize("timeouts", [TIMEOUTS, PLAIN_TIMEOUTS])
def test_match_is_due_after_the_claim_timeout_and_the_margin(timeouts, offset, expected):
    last_block = CLAIM_BLOCK + 10 + MARGIN_BLOCKS
    newest_block = head(last_block + offset, T0 + 10**9)

    assert has_expired(MATCHED, head=newest_block, timeouts=timeouts) is expected


@pytest.mark.parametrize(("offset", "expected"), BEFORE_AND_AFTER_THE_LIMIT)
def test_claim_timeout_is_counted_from_the_last_claim_of_the_provider(offset, expected):
    last_claim = CLAIM_BLOCK + 50
    newest_block = head(last_claim + 10 + MARGIN_BLOCKS + offset)

    assert (
        has_expired(MATCHED, head=newest_block, timeouts=TIMEOUTS, last_claim_block=last_claim)
        is expected
    )


def test_claim_before_the_match_does_not_extend_the_timeout():
    newest_block = head(CLAIM_BLOCK + 10 + MARGIN_BLOCKS + 1)

    assert has_expired(
        MATCHED, head=newest_block, timeouts=TIMEOUTS, last_claim_block=CLAIM_BLOCK - 1
    )


@pytest.mark.parametrize(("offset", "expected"), BEFORE_AND_AFTER_THE_LIMIT)
def test_claimed_job_is_due_after_the_start_timeout_and_the_margin(offset, expected):
    newest_block = head(10**9, T0 + 3600 + MARGIN_S + offset)

    assert has_expired(CLAIMED, head=newest_block, timeouts=TIMEOUTS, claimed_at=T0) is expected


@pytest.mark.parametrize(("offset", "expected"), BEFORE_AND_AFTER_THE_LIMIT)
def test_run_is_due_after_paid_time_grace_and_margin(offset, expected):
    last_second = RUNNING.started_at + PAID_S + GRACE_S + MARGIN_S
    newest_block = head(10**9, last_second + offset)

    assert has_expired(RUNNING, head=newest_block, timeouts=TIMEOUTS) is expected


def test_paid_time_of_a_run_is_rounded_up():
    job_with_one_wei_more = replace(RUNNING, escrow=RUNNING.escrow + 1)

    expires_at = expiry(job_with_one_wei_more, TIMEOUTS, claimed_at=None)

    assert expires_at == RUNNING.started_at + PAID_S + 1 + GRACE_S


@pytest.mark.parametrize("price", [0, 1])
def test_escrow_pays_for_at_most_ten_years(price):
    almost_free_job = replace(RUNNING, price_per_min=price)

    expires_at = expiry(almost_free_job, TIMEOUTS, claimed_at=None)

    assert expires_at == RUNNING.started_at + TEN_YEARS_S + GRACE_S


@pytest.mark.parametrize(
    ("price", "requested_after_s", "grace_starts_after_s"),
    [
        (3 * CREDIT, 0, 0),
        (3 * CREDIT, PAID_S - 1, PAID_S - 1),
        (3 * CREDIT, PAID_S + 1, PAID_S),
        # The paid time of a free job is ten years.
        (0, 0, 0),
        (0, PAID_S - 1, PAID_S - 1),
        (0, PAID_S + 1, PAID_S + 1),
    ],
)
def test_grace_of_a_cancelled_run_starts_at_the_request_but_not_after_the_paid_time(
    price, requested_after_s, grace_starts_after_s
):
    cancelled_run = replace(
        RUNNING,
        price_per_min=price,
        cancel_requested=True,
        cancel_requested_at=RUNNING.started_at + requested_after_s,
    )

    expires_at = expiry(cancelled_run, TIMEOUTS, claimed_at=None)

    assert expires_at == RUNNING.started_at + grace_starts_after_s + GRACE_S


@pytest.mark.parametrize(
    ("start_s", "requested_at", "expires_at"),
    [
        (90 * GRACE_S, T0, T0 + GRACE_S),
        (90 * GRACE_S, T0 + 60, T0 + 60 + GRACE_S),
        (GRACE_S, T0 + 60, T0 + GRACE_S),
    ],
)
def test_request_to_cancel_a_claimed_job_shortens_but_never_extends_its_timeout(
    start_s, requested_at, expires_at
):
    timeouts = replace(TIMEOUTS, start_s=start_s)
    requested = replace(CLAIMED, cancel_requested=True, cancel_requested_at=requested_at)

    assert expiry(requested, timeouts, claimed_at=T0) == expires_at


def test_claimed_job_with_an_unknown_claim_time_is_not_due():
    assert not has_expired(CLAIMED, head=head(10**9, T0 + 10**9), timeouts=TIMEOUTS)


@pytest.mark.parametrize("claimed_job", [CLAIMED, RUNNING])
def test_claimed_job_does_not_expire_on_plain_contracts(claimed_job):
    newest_block = head(10**9, T0 + 10**9)

    assert expiry(claimed_job, PLAIN_TIMEOUTS, claimed_at=T0) is None
    assert not has_expired(claimed_job, head=newest_block, timeouts=PLAIN_TIMEOUTS, claimed_at=T0)


@pytest.mark.parametrize("state", [JobState.PENDING, *sorted(COLD)])
def test_pending_or_cold_job_is_never_due(state):
    newest_block = head(10**9, T0 + 10**9)

    assert not has_expired(job(state), head=newest_block, timeouts=TIMEOUTS, claimed_at=T0)


# A job returns to PENDING after a refusal or after a claim timeout. In both cases the contracts
# emit JOB_REFUSED.
def test_return_to_pending_after_a_claim_is_a_refusal():
    history = history_of(
        (ChainEventKind.JOB_CLAIMED, 5, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 9, PROVIDER),
    )

    assert history.refused_by == {PROVIDER: 9}
    assert history.timeout_counts() == {}


def test_return_to_pending_without_a_claim_is_a_claim_timeout():
    history = history_of(
        (ChainEventKind.JOB_TRANSITION, 4, ""),
        (ChainEventKind.JOB_REFUSED, 5, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 9, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 12, OTHER_ADDRESS),
    )

    assert history.refused_by == {}
    assert history.claim_timeouts == {
        PROVIDER: ClaimTimeouts(count=2, last_block=9),
        OTHER_ADDRESS: ClaimTimeouts(count=1, last_block=12),
    }


def test_claim_of_an_earlier_match_does_not_count_for_a_later_match():
    history = history_of(
        (ChainEventKind.JOB_CLAIMED, 5, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 9, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 30, OTHER_ADDRESS),
    )

    assert history.refused_by == {PROVIDER: 9}
    assert history.timeout_counts() == {OTHER_ADDRESS: 1}


def test_last_returns_are_those_of_refusals_and_claim_timeouts():
    history = history_of(
        (ChainEventKind.JOB_REFUSED, 4, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 6, OTHER_ADDRESS),
        (ChainEventKind.JOB_CLAIMED, 8, PROVIDER),
        (ChainEventKind.JOB_REFUSED, 9, PROVIDER),
    )

    assert history.last_returns() == {PROVIDER: 9, OTHER_ADDRESS: 6}


def test_provider_is_not_excluded_after_one_claim_timeout():
    history = history_of((ChainEventKind.JOB_REFUSED, 5, PROVIDER))

    assert history.excluded_providers(head=head(5), timeouts=TIMEOUTS) == {}


# Each timeout after the first adds ``claim_blocks`` (10) blocks.
@pytest.mark.parametrize(("timeout_count", "excluded_blocks"), [(2, 10), (3, 20), (5, 40)])
def test_provider_is_excluded_for_longer_with_each_claim_timeout(timeout_count, excluded_blocks):
    return_events = [(ChainEventKind.JOB_REFUSED, 100 + n, PROVIDER) for n in range(timeout_count)]
    history = history_of(*return_events)
    last_timeout = 100 + timeout_count - 1
    last_excluded_block = head(last_timeout + excluded_blocks - 1)
    first_included_block = head(last_timeout + excluded_blocks)

    assert history.excluded_providers(head=last_excluded_block, timeouts=TIMEOUTS) == {
        PROVIDER: NOT_CLAIMED
    }
    assert history.excluded_providers(head=first_included_block, timeouts=TIMEOUTS) == {}


RETURN_EVENTS = [
    (ChainEventKind.JOB_REFUSED, 980, OTHER_ADDRESS),
    (ChainEventKind.JOB_CLAIMED, 990, PROVIDER),
    (ChainEventKind.JOB_REFUSED, 1000, PROVIDER),
    (ChainEventKind.JOB_REFUSED, 1010, OTHER_ADDRESS),
]


@pytest.mark.parametrize("first_block", [0, 980, 981, 990, 995, 1000, 1010, 1011])
def test_events_that_are_delivered_again_after_a_rewind_count_once(first_block):
    history = history_of(*RETURN_EVENTS)

    history.rewind(first_block)
    for kind, block, provider in RETURN_EVENTS:
        if block >= first_block:
            history.apply(event(kind, block, provider))

    assert history == history_of(*RETURN_EVENTS)
    assert history.refused_by == {PROVIDER: 1000}
    assert history.claim_timeouts == {OTHER_ADDRESS: ClaimTimeouts(count=2, last_block=1010)}


def test_rewind_removes_a_refusal_but_not_the_claim_before_it():
    history = history_of(*RETURN_EVENTS)

    history.rewind(1000)

    assert history.last_returns() == {OTHER_ADDRESS: 980}
    assert history.is_claimed


@pytest.mark.parametrize(("first_block", "is_empty"), [(980, True), (981, False)])
def test_history_is_empty_if_a_rewind_removes_all_its_events(first_block, is_empty):
    history = history_of(*RETURN_EVENTS)

    history.rewind(first_block)

    assert history.is_empty is is_empty


def test_rewind_of_an_empty_history_has_no_effect():
    history = ReturnHistory()

    history.rewind(0)

    assert history == ReturnHistory()


def claims_in(*blocks, confirmations=64):
    claim_blocks = ClaimBlocks(confirmations)
    for block in blocks:
        claim_blocks.add(PROVIDER, block)
    return claim_blocks


def test_last_claim_is_that_of_each_provider():
    claim_blocks = claims_in(5, 9, 9)
    claim_blocks.add(OTHER_ADDRESS, 7)

    last_blocks = [claim_blocks.last(address) for address in (PROVIDER, OTHER_ADDRESS, CONTRACT)]

    assert last_blocks == [9, 7, None]


@pytest.mark.parametrize(("first_block", "expected"), [(10, 9), (9, 5), (6, 5), (5, None)])
def test_rewind_removes_the_claims_from_a_block_on(first_block, expected):
    claim_blocks = claims_in(5, 9, 9)

    claim_blocks.rewind(first_block)

    assert claim_blocks.last(PROVIDER) == expected


def test_last_claim_before_any_possible_reorg_is_known():
    confirmations = 3
    claim_blocks = claims_in(*range(0, 1001, 2), confirmations=confirmations)

    claim_blocks.rewind(1000 - confirmations + 1)

    assert claim_blocks.last(PROVIDER) == 996


def test_claims_that_no_reorg_removes_are_not_kept():
    claim_blocks = claims_in(*range(1000), confirmations=3)

    claim_blocks.rewind(996)

    assert claim_blocks.last(PROVIDER) is None
