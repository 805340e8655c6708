# SPDX-License-Identifier: Apache-2.0
"""The agent checks every request as if its sender were hostile."""

from dataclasses import replace

import pytest
from tests.fakes.agent import FakeAccounts, FakeReportStore, FakeSlurm
from tests.fakes.scheduler import FakeScheduler
from tests.fakes.store import FakeClock

from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.ids import JobId, JobKey
from gridstead.domain.slurm.hint import Hint
from gridstead.domain.supervisor.submission import GridUser, Script, Submission
from gridstead.domain.users.accounts import WalletRange
from gridstead.errors import AssociationUnknown, InvalidInput, SchedulerUnavailable
from gridstead.services.slurm.agent import NAMES_MAX, REASSOCIATE_EVERY_S, Agent

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


class Bench:
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
            wallets=WalletRange(),
            clock=self.clock,
        )


@pytest.fixture
def bench():
    return Bench()


def test_submit_queues_a_valid_attempt_after_its_association(bench):
    slurm_job_id = bench.agent.submit(SUBMISSION)

    assert bench.scheduler.attempt(slurm_job_id).job_key == JOB_KEY
    assert bench.accounts.associated == [USER.address]


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
def test_submit_refuses_users_that_are_not_wallets(bench, user):
    bench.accounts.users[user.address] = user

    with pytest.raises(InvalidInput):
        bench.agent.submit(replace(SUBMISSION, user=user))

    assert bench.scheduler.submissions == []


def test_submit_refuses_the_ids_of_another_wallet(bench):
    with pytest.raises(InvalidInput):
        bench.agent.submit(replace(SUBMISSION, user=replace(USER, uid=200002)))


def test_submit_fails_with_a_transient_error_if_the_user_does_not_resolve(bench):
    bench.accounts.users.clear()

    with pytest.raises(SchedulerUnavailable):
        bench.agent.submit(SUBMISSION)


def test_an_unknown_association_makes_slurmctld_read_them_again_once_a_minute(bench):
    bench.slurm.knows_associations = False

    for _ in range(3):
        with pytest.raises(AssociationUnknown):
            bench.agent.submit(SUBMISSION)
    assert bench.accounts.reassociated == [USER.address]

    bench.clock.advance(REASSOCIATE_EVERY_S)
    with pytest.raises(AssociationUnknown):
        bench.agent.submit(SUBMISSION)
    assert bench.accounts.reassociated == [USER.address] * 2
    assert bench.scheduler.submissions == []


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
def test_submit_refuses_invalid_resources(bench, resources):
    with pytest.raises(InvalidInput):
        bench.agent.submit(replace(SUBMISSION, resources=resources))


@pytest.mark.parametrize("minutes", [0, -1, 10**7])
def test_submit_refuses_an_invalid_time_limit(bench, minutes):
    with pytest.raises(InvalidInput):
        bench.agent.submit(replace(SUBMISSION, time_limit_min=minutes))


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
def test_submit_refuses_an_invalid_script_or_environment(bench, script):
    with pytest.raises(InvalidInput):
        bench.agent.submit(replace(SUBMISSION, script=script))


def test_cancel_ends_only_the_attempt_with_the_job_key(bench):
    slurm_job_id = bench.agent.submit(SUBMISSION)
    other = replace(JOB_KEY, batch_location_hash="other")

    bench.agent.cancel(slurm_job_id, job_key=other)
    bench.agent.cancel(slurm_job_id + 1, job_key=JOB_KEY)
    assert bench.scheduler.attempt(slurm_job_id).is_alive

    bench.agent.cancel(slurm_job_id, job_key=JOB_KEY)
    bench.agent.cancel(slurm_job_id, job_key=JOB_KEY)
    assert bench.scheduler.attempt(slurm_job_id).state == "CANCELLED"


def test_cancel_does_not_end_a_job_without_a_job_key(bench):
    slurm_job_id = bench.scheduler.impostor(
        name=JOB_KEY.job_id.slurm_name, job_key=None, user="root"
    )

    bench.agent.cancel(slurm_job_id, job_key=JOB_KEY)

    assert bench.scheduler.attempt(slurm_job_id).is_alive


def test_extend_never_lowers_a_time_limit(bench):
    slurm_job_id = bench.agent.submit(SUBMISSION)

    bench.agent.extend(slurm_job_id, job_key=JOB_KEY, time_limit_min=3)
    bench.agent.extend(slurm_job_id, job_key=JOB_KEY, time_limit_min=9)
    bench.agent.extend(slurm_job_id, job_key=JOB_KEY, time_limit_min=9)

    assert bench.slurm.limits == [(slurm_job_id, 9)]


def test_accounting_refuses_too_many_names(bench):
    names = [f"0x{number:064x}" for number in range(NAMES_MAX + 1)]

    with pytest.raises(InvalidInput):
        bench.agent.list_records(names, since=0)


def test_accounting_refuses_a_negative_time(bench):
    with pytest.raises(InvalidInput):
        bench.agent.list_records([JOB_KEY.job_id.slurm_name], since=-1)


def test_gate_is_closed_while_the_user_does_not_resolve(bench):
    gate = bench.agent.check_gate(f"0x{9:040x}")

    assert gate.user is None
    assert not gate.is_open


def test_gate_is_closed_to_an_account_outside_the_wallet_range(bench):
    bench.accounts.users[USER.address] = replace(USER, gid=0)

    assert not bench.agent.check_gate(USER.address).is_open


def test_gate_is_closed_without_association_while_a_directory_is_missing(bench):
    bench.accounts.missing = ("directory /home/x is not there",)

    assert bench.agent.check_gate(USER.address).missing == bench.accounts.missing
    assert bench.accounts.associated == []


def test_gate_creates_the_association_when_it_opens(bench):
    assert bench.agent.check_gate(USER.address).is_open
    assert bench.accounts.associated == [USER.address]


def test_gate_refuses_a_malformed_address(bench):
    with pytest.raises(InvalidInput):
        bench.agent.check_gate("root")


def test_pull_returns_reports_after_the_cursor(bench):
    bench.reports.add([Hint(event="end", slurm_job_id=1, uid=200001, occurred_at=5)])

    assert [report.sequence for report in bench.agent.pull(after=0, wait_s=1e9)] == [1]
    assert bench.agent.pull(after=1, wait_s=-1) == ()
