# SPDX-License-Identifier: Apache-2.0
"""The cluster agent: its calls of Slurm, and the requests that it refuses."""

from dataclasses import replace

import pytest
from tests.fakes.agent import FakeAccounts, FakeReportStore, FakeSlurm
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.slurm.hint import Hint
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.domain.users.accounts import WalletIdRange
from gridstead.errors import AssociationUnknown, InvalidInput, SchedulerUnavailable
from gridstead.services.slurm.agent import MAX_NAMES, REASSOCIATION_INTERVAL_S, Agent

USER = GridUser(address=f"0x{1:040x}", uid=200001, gid=100000)
JOB_KEY = JobKey(
    job_id=JobId(chain_id=179188, contract=f"0x{2:040x}", number=3), batch_location_hash="abc"
)
SUBMISSION = Submission(
    job_key=JOB_KEY,
    user=USER,
    resources=Resources(gpus=0, tasks=1, cpus_per_task=2, memory_per_cpu_mb=64),
    time_limit_min=5,
    script=Script(text="#!/bin/sh\n", environment={"TOKEN": "secret"}),
)


class AgentSetup:
    """An agent with fakes of Slurm, the accounts and the reports."""

    def __init__(self):
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.slurm = FakeSlurm(self.scheduler)
        self.accounts = FakeAccounts(USER)
        self.reports = FakeReportStore()
        self.agent = Agent(
            slurm=self.slurm,
            accounts=self.accounts,
            reports=self.reports,
            wallet_ids=WalletIdRange(),
            clock=self.clock,
        )


@pytest.fixture
def setup():
    return AgentSetup()


def test_submit_creates_the_association_and_queues_the_job(setup):
    slurm_job_id = setup.agent.submit(SUBMISSION)

    assert setup.scheduler.attempt(slurm_job_id).job_key == JOB_KEY
    assert setup.accounts.associated == [USER.address]


# Wallets have uids from 200001 to 999999, and gid 100000.
@pytest.mark.parametrize(
    "user",
    [
        replace(USER, uid=0),
        replace(USER, uid=200000),
        replace(USER, uid=1_000_000),
        replace(USER, gid=0),
        replace(USER, gid=100001),
        replace(USER, address="root"),
        replace(USER, address=USER.address.replace("0x", "0X")),
        replace(USER, address=f"{USER.address}\n"),
    ],
)
def test_submit_refuses_a_user_that_is_not_a_wallet(setup, user):
    setup.accounts.users[user.address] = user

    with pytest.raises(InvalidInput):
        setup.agent.submit(replace(SUBMISSION, user=user))

    assert setup.scheduler.submissions == []


def test_submit_refuses_the_uid_of_another_wallet(setup):
    other_user = replace(USER, uid=200002)

    with pytest.raises(InvalidInput):
        setup.agent.submit(replace(SUBMISSION, user=other_user))


def test_submit_fails_with_a_transient_error_if_the_user_does_not_resolve(setup):
    setup.accounts.users.clear()

    with pytest.raises(SchedulerUnavailable):
        setup.agent.submit(SUBMISSION)


def test_slurmctld_reads_associations_again_at_most_once_a_minute(setup):
    setup.slurm.knows_associations = False

    for _ in range(3):
        with pytest.raises(AssociationUnknown):
            setup.agent.submit(SUBMISSION)
    assert setup.accounts.reassociated == [USER.address]

    setup.clock.advance(REASSOCIATION_INTERVAL_S)
    with pytest.raises(AssociationUnknown):
        setup.agent.submit(SUBMISSION)
    assert setup.accounts.reassociated == [USER.address] * 2
    assert setup.scheduler.submissions == []


def test_slurmctld_reads_associations_again_after_the_clock_was_set_back(setup):
    setup.slurm.knows_associations = False
    with pytest.raises(AssociationUnknown):
        setup.agent.submit(SUBMISSION)

    setup.clock.advance(-3600)
    with pytest.raises(AssociationUnknown):
        setup.agent.submit(SUBMISSION)

    assert setup.accounts.reassociated == [USER.address] * 2


@pytest.mark.parametrize(
    "resources",
    [
        Resources(gpus=0, tasks=0, cpus_per_task=1, memory_per_cpu_mb=1),
        Resources(gpus=0, tasks=1, cpus_per_task=0, memory_per_cpu_mb=1),
        Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=0),
        Resources(gpus=-1, tasks=1, cpus_per_task=1, memory_per_cpu_mb=1),
        Resources(gpus=0, tasks=1 << 31, cpus_per_task=1, memory_per_cpu_mb=1),
    ],
)
def test_submit_refuses_invalid_resources(setup, resources):
    with pytest.raises(InvalidInput):
        setup.agent.submit(replace(SUBMISSION, resources=resources))


@pytest.mark.parametrize("minutes", [0, -1, 10**7])
def test_submit_refuses_an_invalid_time_limit(setup, minutes):
    with pytest.raises(InvalidInput):
        setup.agent.submit(replace(SUBMISSION, time_limit_min=minutes))


@pytest.mark.parametrize(
    "script",
    [
        Script(text="echo hello\n"),
        Script(text="#!/bin/sh\n\0"),
        Script(text="#!/bin/sh\n" + "x" * (1 << 20)),
        Script(text="#!/bin/sh\n", environment={"A=B": "c"}),
        Script(text="#!/bin/sh\n", environment={"LD_PRELOAD": "/tmp/x.so"}),
        Script(text="#!/bin/sh\n", environment={"SLURM_CONF": "/tmp/x"}),
        Script(text="#!/bin/sh\n", environment={"A": "b\0c"}),
        Script(text="#!/bin/sh\n", environment={"A": "x" * (1 << 19)}),
    ],
)
def test_submit_refuses_an_invalid_script_or_environment(setup, script):
    with pytest.raises(InvalidInput):
        setup.agent.submit(replace(SUBMISSION, script=script))


def test_cancel_ends_only_the_job_with_the_job_key(setup):
    slurm_job_id = setup.agent.submit(SUBMISSION)
    other_key = replace(JOB_KEY, batch_location_hash="other")

    setup.agent.cancel(slurm_job_id, job_key=other_key)
    setup.agent.cancel(slurm_job_id + 1, job_key=JOB_KEY)
    assert setup.scheduler.attempt(slurm_job_id).is_alive

    setup.agent.cancel(slurm_job_id, job_key=JOB_KEY)
    setup.agent.cancel(slurm_job_id, job_key=JOB_KEY)  # A repeated call has no effect.
    assert setup.scheduler.attempt(slurm_job_id).state == "CANCELLED"


def test_cancel_does_not_end_a_job_without_a_job_key(setup):
    slurm_job_id = setup.scheduler.queue_foreign_job(
        name=JOB_KEY.job_id.slurm_job_name, job_key=None, user="root"
    )

    setup.agent.cancel(slurm_job_id, job_key=JOB_KEY)

    assert setup.scheduler.attempt(slurm_job_id).is_alive


def test_extend_never_lowers_a_time_limit(setup):
    slurm_job_id = setup.agent.submit(SUBMISSION)

    # The limit is 5 minutes. Only the first call with 9 minutes changes it.
    setup.agent.extend(slurm_job_id, job_key=JOB_KEY, time_limit_min=3)
    setup.agent.extend(slurm_job_id, job_key=JOB_KEY, time_limit_min=9)
    setup.agent.extend(slurm_job_id, job_key=JOB_KEY, time_limit_min=9)

    assert setup.slurm.limits == [(slurm_job_id, 9)]


def test_accounting_refuses_too_many_names(setup):
    names = [f"0x{number:064x}" for number in range(MAX_NAMES + 1)]

    with pytest.raises(InvalidInput):
        setup.agent.list_records(names, since=0)


def test_accounting_refuses_a_negative_time(setup):
    with pytest.raises(InvalidInput):
        setup.agent.list_records([JOB_KEY.job_id.slurm_job_name], since=-1)


def test_gate_is_closed_while_the_user_does_not_resolve(setup):
    gate = setup.agent.check_gate(f"0x{9:040x}")

    assert gate.user is None
    assert not gate.is_open


def test_gate_is_closed_to_an_account_outside_the_wallet_range(setup):
    setup.accounts.users[USER.address] = replace(USER, gid=0)

    assert not setup.agent.check_gate(USER.address).is_open


def test_gate_is_closed_while_a_directory_is_missing(setup):
    setup.accounts.missing = ("directory /home/x is not there",)

    assert setup.agent.check_gate(USER.address).missing == setup.accounts.missing
    assert setup.accounts.associated == []


def test_gate_creates_the_association_when_it_opens(setup):
    assert setup.agent.check_gate(USER.address).is_open
    assert setup.accounts.associated == [USER.address]


def test_gate_refuses_a_malformed_address(setup):
    with pytest.raises(InvalidInput):
        setup.agent.check_gate("root")


def test_pull_returns_reports_after_the_cursor(setup):
    setup.reports.add([Hint(event="end", slurm_job_id=1, uid=200001, occurred_at=5)])

    (report,) = setup.agent.pull(after=0, wait_s=1e9)
    assert report.sequence == 1
    assert setup.agent.pull(after=1, wait_s=-1) == ()
