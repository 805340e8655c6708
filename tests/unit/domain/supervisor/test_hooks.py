# SPDX-License-Identifier: Apache-2.0
"""The bill and the end of a job on a site with pre-hooks.

The attempt of the builders ran for 30 seconds, from T0 + 2 to T0 + 32.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.builders import (
    POLICY,
    T0,
    accounting_sample,
    attempt,
    calls_of,
    job,
    planned_actions,
    submitted_record,
)

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.attempt import NodeReport
from gridstead.domain.supervisor.hooks import PRE_HOOK_FAILED
from gridstead.domain.supervisor.settlement import billed_seconds
from gridstead.domain.transactions.calls import SetRunning, Settle

UID = 200_001
TIMEOUT_S = 30
HOOK_POLICY = replace(POLICY, hook_timeout_s=TIMEOUT_S)


def report(event, occurred_at, **changes):
    fields = {"sequence": 1, "event": event, "slurm_job_id": 42, "uid": UID}
    return NodeReport(**(fields | {"occurred_at": occurred_at} | changes))


def calls_for_end(our_job, ended, *reports, policy=HOOK_POLICY):
    actions = planned_actions(
        [our_job],
        [submitted_record(our_job)],
        policy=policy,
        accounting_sample=accounting_sample(ended),
        reports=reports,
    )
    return calls_of(actions)


def bill(*reports, timeout_s=TIMEOUT_S, **changes):
    running_job = job(JobState.RUNNING)
    ended = attempt(running_job, "COMPLETED", uid=UID, **changes)
    return billed_seconds(running_job, ended, reports, hook_timeout_s=timeout_s)


@pytest.mark.parametrize("hooks_s", [0, 1, 29, 30])
def test_run_time_of_pre_hooks_is_not_billed(hooks_s):
    assert bill(report("start", T0 + 2 + hooks_s)) == 30 - hooks_s


def test_at_most_the_timeout_of_pre_hooks_is_left_out_of_the_bill():
    assert bill(report("start", T0 + 2 + 29), timeout_s=5) == 30 - 5


@pytest.mark.parametrize(
    "other_report",
    [
        report("start", T0 + 12, slurm_job_id=43),
        report("start", T0 + 12, uid=UID + 1),
        report("start", T0 + 1),
        report("start", T0 + 33),
        report("record", T0 + 12),
    ],
)
def test_timeout_is_left_out_if_no_report_of_the_start_matches(other_report):
    assert bill(other_report, timeout_s=5) == 30 - 5


def test_bill_without_pre_hooks_does_not_depend_on_the_report_of_the_start():
    assert bill(report("start", T0 + 12), timeout_s=0) == 30


REPORTS = st.lists(
    st.builds(
        report,
        st.sampled_from(["start", "end", "record", PRE_HOOK_FAILED, "unknown"]),
        st.integers(T0 - 100, T0 + 10_000),
        slurm_job_id=st.sampled_from([42, 43]),
        uid=st.sampled_from([UID, UID + 1]),
    ),
    max_size=8,
)


@given(
    reports=REPORTS,
    timeout_s=st.integers(0, 300),
    run_s=st.integers(0, 10_000),
    suspended_s=st.integers(0, 100),
)
def test_no_reports_lower_a_bill_by_more_than_two_timeouts(reports, timeout_s, run_s, suspended_s):
    times = {"started_at": T0, "ended_at": T0 + run_s, "suspended_s": suspended_s}

    without_hooks = bill(*reports, timeout_s=0, **times)
    with_hooks = bill(*reports, timeout_s=timeout_s, **times)

    assert max(0, without_hooks - 2 * timeout_s) <= with_hooks <= without_hooks


@given(run_s=st.integers(0, 1000), hooks_s=st.integers(0, 1000), timeout_s=st.integers(0, 300))
def test_bill_contains_the_script_and_hooks_beyond_their_timeout(run_s, hooks_s, timeout_s):
    """The pre-hooks of this attempt took ``hooks_s``, then its script took ``run_s``."""
    end_at = T0 + hooks_s + run_s

    seconds = bill(
        report("start", T0 + hooks_s),
        report("end", end_at),
        timeout_s=timeout_s,
        started_at=T0,
        ended_at=end_at,
    )

    assert seconds == run_s + max(0, hooks_s - timeout_s)


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RUNNING])
def test_failed_pre_hook_ends_the_job_as_panicked_and_unbilled(state):
    our_job = job(state)
    ended = attempt(our_job, "CANCELLED", uid=UID)

    (end,) = calls_for_end(our_job, ended, report(PRE_HOOK_FAILED, T0 + 32))

    assert isinstance(end, Settle)
    assert (end.state, end.seconds) == (JobState.PANICKED, 0)
    assert end.error == "a pre-hook of the provider failed"


@pytest.mark.parametrize(
    ("slurm_state", "reports"),
    [
        ("CANCELLED", [report("start", T0 + 20), report(PRE_HOOK_FAILED, T0 + 15)]),
        ("CANCELLED", [report("start", T0 + 20), report(PRE_HOOK_FAILED, T0 + 32)]),
        ("CANCELLED", [report("end", T0 + 32), report(PRE_HOOK_FAILED, T0 + 15)]),
        ("COMPLETED", [report(PRE_HOOK_FAILED, T0 + 15)]),
        ("FAILED", [report(PRE_HOOK_FAILED, T0 + 15)]),
        ("CANCELLED", [report(PRE_HOOK_FAILED, T0 + 15, slurm_job_id=43)]),
        ("CANCELLED", [report(PRE_HOOK_FAILED, T0 + 15, uid=UID + 1)]),
        ("CANCELLED", [report(PRE_HOOK_FAILED, T0 - 100)]),
        ("CANCELLED", [report(PRE_HOOK_FAILED, T0 + 200)]),
    ],
)
def test_failed_pre_hook_counts_only_before_the_script_of_the_same_run(slurm_state, reports):
    """The last two reports are more than the maximum clock difference outside the run."""
    our_job = job(JobState.RUNNING)

    (end,) = calls_for_end(our_job, attempt(our_job, slurm_state, uid=UID), *reports)

    assert end.state is not JobState.PANICKED


@pytest.mark.parametrize(("run_s", "is_billed"), [(90, False), (91, True), (36_000, True)])
def test_failed_pre_hook_counts_only_shortly_before_the_end(run_s, is_billed):
    """The prolog could not cancel the attempt, and all reports of its script were lost."""
    our_job = job(JobState.RUNNING)
    failed_at = T0 + 10
    ended = attempt(our_job, "CANCELLED", uid=UID, ended_at=failed_at + run_s)

    (end,) = calls_for_end(our_job, ended, report(PRE_HOOK_FAILED, failed_at))

    assert (end.state is not JobState.PANICKED) == is_billed
    assert (end.seconds > 0) == is_billed


def test_failed_pre_hook_is_ignored_if_the_site_has_no_hooks():
    our_job = job()
    ended = attempt(our_job, "CANCELLED", uid=UID)

    (start,) = calls_for_end(our_job, ended, report(PRE_HOOK_FAILED, T0 + 32), policy=POLICY)

    assert isinstance(start, SetRunning)


@pytest.mark.parametrize("slack_min", [None, 15])
def test_start_of_a_job_with_a_failed_pre_hook_is_not_reported(slack_min):
    """The contracts of DeepSquare 1.2 bill a minute for each job whose start was reported."""
    policy = replace(HOOK_POLICY, deepsquare_slack_min=slack_min)
    our_job = job()
    ended = attempt(our_job, "CANCELLED", uid=UID)

    calls = calls_for_end(our_job, ended, report(PRE_HOOK_FAILED, T0 + 32), policy=policy)

    assert not any(isinstance(call, SetRunning) for call in calls)
