# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules that exclude providers after skipped matches."""

from __future__ import annotations

import pytest
from tests.unit.domain.builders import OTHER_ADDRESS, PROVIDER, job

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.matching.skips import (
    JOB_EXCLUSION_S,
    MAX_CHANGES,
    PERIOD_S,
    PROVIDER_ERRORS,
    SKIPPED_THIS_JOB,
    SkipHistory,
)
from gridstead.domain.transactions.calls import Expire, Match
from gridstead.domain.transactions.outbox import SkippedCall

JOB = job(JobState.PENDING, provider="")
NOW = 10_000


def skipped(seen_at, *, requested_at=None, error="PriceAboveLimit(2, 1)", provider=PROVIDER):
    """Return a skipped match of JOB. By default it was requested a second before it was seen."""
    return SkippedCall(
        call=Match(job_key=JOB.job_key, provider=provider),
        error=error,
        requested_at=seen_at - 1 if requested_at is None else requested_at,
        seen_at=seen_at,
    )


def history_of(*skipped_calls):
    history = SkipHistory()
    for skipped_call in skipped_calls:
        history.apply(skipped_call)
    return history


@pytest.mark.parametrize("error_name", PROVIDER_ERRORS)
def test_skipped_match_excludes_its_provider_from_the_job(error_name):
    history = history_of(skipped(NOW, error=f"{error_name}(1)"))

    assert history.excluded_from(JOB.job_key) == {PROVIDER: SKIPPED_THIS_JOB}
    assert history.exclusions() == {}


@pytest.mark.parametrize(
    "error", ["InvalidTransition(1, 2)", "Error(AccessControl: missing role)", "InvalidJob()", ""]
)
def test_error_that_a_provider_cannot_cause_does_not_count(error):
    history = history_of(*[skipped(NOW + n, error=error) for n in range(MAX_CHANGES)])

    assert history == SkipHistory()


def test_skipped_call_that_is_not_a_match_does_not_count():
    expiry = Expire(job_key=JOB.job_key, state=JobState.META_SCHEDULED, state_block=1)
    call = SkippedCall(call=expiry, error="ProviderNotJoined()", requested_at=1, seen_at=2)

    assert history_of(call) == SkipHistory()


def test_skipped_matches_that_were_requested_before_the_change_was_seen_are_one_change():
    history = history_of(skipped(NOW), *[skipped(NOW + 5, requested_at=NOW) for _ in range(10)])

    assert history.exclusions() == {}
    assert history.counts()["PriceAboveLimit"] == 1


def test_provider_is_excluded_until_the_first_change_is_old():
    history = history_of(*[skipped(NOW + 10 * n) for n in range(MAX_CHANGES)])

    assert history.exclusions()[PROVIDER].until == NOW + PERIOD_S
    history.forget_old(NOW + PERIOD_S - 1)
    assert set(history.exclusions()) == {PROVIDER}
    history.forget_old(NOW + PERIOD_S)
    assert history.exclusions() == {}


def test_changes_of_other_providers_do_not_count():
    changes = [skipped(NOW + 10 * n) for n in range(MAX_CHANGES - 1)]
    history = history_of(*changes, skipped(NOW + 50, provider=OTHER_ADDRESS))

    assert history.exclusions() == {}


def test_exclusion_from_a_job_ends_earlier_than_the_memory_of_the_change():
    history = history_of(skipped(NOW))

    history.forget_old(NOW + JOB_EXCLUSION_S - 1)
    assert history.excluded_from(JOB.job_key)
    history.forget_old(NOW + JOB_EXCLUSION_S)
    assert history.excluded_from(JOB.job_key) == {}
    assert history.counts()["PriceAboveLimit"] == 1


def test_repeated_skip_of_a_job_extends_the_exclusion_from_the_job():
    history = history_of(
        skipped(NOW), skipped(NOW + 1, provider=OTHER_ADDRESS), skipped(NOW + JOB_EXCLUSION_S - 1)
    )

    history.forget_old(NOW + JOB_EXCLUSION_S + 1)

    assert set(history.excluded_from(JOB.job_key)) == {PROVIDER}


def test_nothing_is_remembered_after_the_period():
    history = history_of(*[skipped(NOW + n, requested_at=0) for n in range(100)])

    history.forget_old(NOW + 99 + PERIOD_S)

    assert history == SkipHistory()


def test_exclusion_ends_if_the_clock_is_set_back():
    history = history_of(*[skipped(NOW + 10 * n) for n in range(MAX_CHANGES)])

    history.forget_old(NOW - PERIOD_S)

    assert history == SkipHistory()
