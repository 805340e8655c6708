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
    controller_sample,
    job,
    journal_entry_kinds,
    journal_record,
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


# The time of the confirmed block if the request is not confirmed. None: there is no such block.
UNCONFIRMED = [None, REQUESTED_AT - 1, REQUESTED_AT]


def test_started_attempt_is_stopped_and_its_start_is_reported():
    live = controller_sample(attempt(REQUESTED, time_limit_min=1))

    actions = planned_actions([REQUESTED], [submitted_record(REQUESTED)], controller_sample=live)

    assert cancelled_ids(actions) == [42]
    assert calls_of(actions) == [STARTED]
    assert not any(isinstance(action, Extend) for action in actions)


@pytest.mark.parametrize("confirmed_at", UNCONFIRMED)
def test_started_attempt_is_not_stopped_before_the_request_is_confirmed(confirmed_at):
    live = controller_sample(attempt(REQUESTED))

    actions = planned_actions(
        [REQUESTED],
        [submitted_record(REQUESTED)],
        controller_sample=live,
        confirmed_at=confirmed_at,
    )

    assert cancelled_ids(actions) == []
    assert calls_of(actions) == [STARTED]


def test_running_job_is_not_stopped_before_its_request_is_confirmed():
    running = job(JobState.RUNNING, cancel_requested=True, cancel_requested_at=REQUESTED_AT)
    live = controller_sample(attempt(running))

    actions = planned_actions(
        [running],
        [submitted_record(running)],
        controller_sample=live,
        confirmed_at=REQUESTED_AT,
    )

    assert cancelled_ids(actions) == []


def test_attempt_that_has_not_started_is_cancelled_at_once_and_does_not_count():
    live = controller_sample(attempt(REQUESTED, "PENDING"))

    actions = planned_actions(
        [REQUESTED], [submitted_record(REQUESTED)], controller_sample=live, confirmed_at=None
    )

    assert cancelled_ids(actions) == [42]
    assert EntryKind.CANCELLED_BY_US in journal_entry_kinds(actions)
    assert calls_of(actions) == []


def test_job_is_submitted_again_after_a_reorg_removed_its_request():
    kept = job(escrow=10**21)
    entry = (EntryKind.CANCELLED_BY_US, T0 + 1, 42)
    record = journal_record(
        kept, (EntryKind.SUBMIT_INTENDED, T0 + 1), (EntryKind.SUBMITTED, T0 + 1, 42), entry
    )
    ended = accounting_sample(attempt(kept, "CANCELLED", started_at=None))

    actions = planned_actions(
        [kept], [replace(record, absent_since=T0 + 2)], accounting_sample=ended
    )

    assert [type(action) for action in actions] == [Submit]


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


@pytest.mark.parametrize("record", [NEVER_SUBMITTED, REJECTED, UNRUNNABLE])
@pytest.mark.parametrize("confirmed_at", UNCONFIRMED)
def test_refusal_waits_until_the_request_is_confirmed(record, confirmed_at):
    absent = replace(record, absent_since=T0 + 2)

    assert planned_actions([REQUESTED], [absent], confirmed_at=confirmed_at) == ()


def test_refusal_of_a_job_that_ended_in_the_queue_waits_until_the_request_is_confirmed():
    ended = accounting_sample(attempt(REQUESTED, "FAILED", started_at=None))

    actions = planned_actions(
        [REQUESTED],
        [submitted_record(REQUESTED)],
        accounting_sample=ended,
        confirmed_at=REQUESTED_AT,
    )

    assert calls_of(actions) == []


@pytest.mark.parametrize(("confirmed_at", "count"), [(REQUESTED_AT, 0), (REQUESTED_AT + 1, 1)])
def test_bill_that_a_request_limits_waits_until_the_request_is_confirmed(confirmed_at, count):
    running = replace(REQUESTED, state=JobState.RUNNING, started_at=T0 + 2)
    ended = accounting_sample(attempt(running, "COMPLETED"))

    actions = planned_actions(
        [running],
        [submitted_record(running)],
        accounting_sample=ended,
        confirmed_at=confirmed_at,
    )

    assert [call.seconds for call in calls_of(actions)] == [10] * count


@pytest.mark.parametrize(("confirmed_at", "count"), [(REQUESTED_AT, 0), (REQUESTED_AT + 1, 1)])
def test_lost_run_is_settled_as_cancelled_after_its_request_is_confirmed(confirmed_at, count):
    running = job(JobState.RUNNING, cancel_requested=True, cancel_requested_at=REQUESTED_AT)
    lost = replace(submitted_record(running), absent_since=T0 + 2)

    actions = planned_actions([running], [lost], confirmed_at=confirmed_at)

    assert [call.state for call in calls_of(actions)] == [JobState.CANCELLED] * count


def test_nothing_is_refused_while_slurmctld_does_not_answer():
    actions = planned_actions([REQUESTED], [submitted_record(REQUESTED)], controller_sample=None)

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
