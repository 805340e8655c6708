# SPDX-License-Identifier: Apache-2.0
"""The plan for a claimed job whose customer requested to cancel it before its recorded start."""

from dataclasses import replace

import pytest
from tests.unit.domain.builders import (
    CLAIM_BLOCK,
    CONFIRMATIONS,
    T0,
    accounting_sample,
    attempt,
    calls_of,
    cancelled_ids,
    job,
    journal_record,
    live_sample,
    planned_actions,
    submitted_record,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.actions import Extend, Submit
from gridstead.domain.supervisor.journal import EntryKind
from gridstead.domain.supervisor.settlement import billed_seconds
from gridstead.domain.transactions.calls import Refuse, SetRunning

REQUESTED_AT = T0 + 12
REQUESTED = job(
    cancel_requested=True, cancel_requested_at=REQUESTED_AT, bill_until=REQUESTED_AT, escrow=10**21
)
REFUSED = Refuse(job_key=REQUESTED.job_key)
STARTED = SetRunning(job_key=REQUESTED.job_key, started_at=T0 + 2)
NEVER_SUBMITTED = journal_record(REQUESTED)
REJECTED = journal_record(
    REQUESTED, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMIT_REJECTED, T0 + 1, None, "no")
)
UNRUNNABLE = journal_record(REQUESTED, (EntryKind.SCRIPT_UNAVAILABLE, T0 + 1, None, "gone"))


@pytest.mark.parametrize(("slurm_state", "calls"), [("PENDING", []), ("RUNNING", [STARTED])])
def test_live_job_is_stopped_and_its_start_is_reported(slurm_state, calls):
    live = live_sample(attempt(REQUESTED, slurm_state, time_limit_min=1))

    actions = planned_actions([REQUESTED], [submitted_record(REQUESTED)], live_sample=live)

    assert cancelled_ids(actions) == [42]
    assert calls_of(actions) == calls
    assert not any(isinstance(action, Extend) for action in actions)


@pytest.mark.parametrize("slurm_state", ["CANCELLED", "COMPLETED", "TIMEOUT"])
def test_start_of_an_ended_job_is_reported_before_its_end(slurm_state):
    ended = accounting_sample(attempt(REQUESTED, slurm_state))

    actions = planned_actions([REQUESTED], [submitted_record(REQUESTED)], accounting_sample=ended)

    assert calls_of(actions) == [STARTED]


@pytest.mark.parametrize("slurm_state", ["CANCELLED", "FAILED", "NODE_FAIL"])
def test_job_that_ended_in_the_queue_of_slurm_is_refused(slurm_state):
    ended = accounting_sample(attempt(REQUESTED, slurm_state, started_at=None))

    actions = planned_actions([REQUESTED], [submitted_record(REQUESTED)], accounting_sample=ended)

    assert calls_of(actions) == [REFUSED]


@pytest.mark.parametrize("record", [NEVER_SUBMITTED, REJECTED, UNRUNNABLE])
def test_absent_job_is_refused_and_not_submitted(record):
    actions = planned_actions([REQUESTED], [replace(record, absent_since=T0 + 2)])

    assert calls_of(actions) == [REFUSED]
    assert not any(isinstance(action, Submit) for action in actions)


def test_refusal_waits_until_the_claim_is_confirmed():
    height = CLAIM_BLOCK + CONFIRMATIONS - 1

    assert planned_actions([REQUESTED], [NEVER_SUBMITTED], height=height) == ()


def test_nothing_is_refused_while_slurmctld_does_not_answer():
    actions = planned_actions([REQUESTED], [submitted_record(REQUESTED)], live_sample=None)

    assert actions == ()


@pytest.mark.parametrize(
    ("bill_until", "seconds"), [(T0 + 12, 10), (T0 + 2, 0), (T0 - 5, 0), (T0 + 60, 30), (None, 30)]
)
def test_run_is_billed_at_most_until_the_request(bill_until, seconds):
    """The job runs from T0 + 2 to T0 + 32."""
    running = job(JobState.RUNNING, bill_until=bill_until, escrow=10**21)

    assert billed_seconds(running, attempt(running, "COMPLETED"), ()) == seconds


def test_time_until_the_request_is_billed_without_pre_hooks_and_suspensions():
    running = job(JobState.RUNNING, bill_until=T0 + 12, escrow=10**21)
    suspended = attempt(running, "COMPLETED", suspended_s=3)

    assert billed_seconds(running, suspended, (), hook_timeout_s=5) == 2
