# SPDX-License-Identifier: Apache-2.0
"""Tests of the billed time of a job, in seconds and in the minutes of DeepSquare's contracts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.ledger import SMALL
from tests.unit.domain.builders import attempt, job

from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.settlement import (
    billed_minutes,
    billed_seconds,
    max_billable_seconds,
)


def job_started_at(started_at):
    return Job(
        id=JobId(chain_id=1, contract="0x", number=1),
        state=JobState.RUNNING,
        customer="0x",
        provider="0x",
        resources=SMALL,
        batch_location_hash="script",
        escrow=1,
        submitted_at=0,
        started_at=started_at,
        state_block=0,
    )


@pytest.mark.parametrize(("seconds", "minutes"), [(0, 0), (59, 0), (60, 1), (119, 1), (120, 2)])
def test_minutes_are_rounded_down(seconds, minutes):
    assert billed_minutes(JobState.FINISHED, seconds) == minutes


# The attempt took 30 seconds. The escrow of 100 * 10**18 pays for 20 seconds at the third price.
@pytest.mark.parametrize(
    ("price", "seconds"), [(0, 30), (10**18, 30), (300 * 10**18, 20), (10**40, 0)]
)
def test_billed_time_is_at_most_the_time_that_the_escrow_pays_for(price, seconds):
    running_job = job(JobState.RUNNING, price_per_min=price)

    assert billed_seconds(running_job, attempt(running_job, "COMPLETED"), ()) == seconds


def test_no_minutes_are_reported_for_a_panic():
    assert billed_minutes(JobState.PANICKED, 10**6) == 0


# The job started at 1000. The slack is 15 minutes, or 900 seconds.
@pytest.mark.parametrize(
    ("now", "seconds"), [(990, 900), (1000, 900), (1059, 900), (1060, 960), (1000 + 7200, 8100)]
)
def test_slack_is_added_to_the_whole_minutes_since_the_start(now, seconds):
    assert max_billable_seconds(job_started_at(1000), now=now, slack_min=15) == seconds


@given(
    now=st.integers(0, 10**9),
    delay_s=st.integers(0, 10**6),
    slack_min=st.integers(0, 1000),
    used_s=st.integers(0, 10**6),
)
def test_contracts_accept_a_report_within_the_slack(now, delay_s, slack_min, used_s):
    """The report is mined ``delay_s`` after the block for which it was computed."""
    running = job_started_at(now // 2)
    seconds = min(used_s, max_billable_seconds(running, now=now, slack_min=slack_min))

    minutes = billed_minutes(JobState.FINISHED, seconds)

    minutes_on_chain = (now + delay_s - running.started_at) // 60
    assert minutes <= minutes_on_chain + slack_min
    assert minutes * 60 <= used_s
