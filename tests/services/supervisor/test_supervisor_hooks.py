# SPDX-License-Identifier: Apache-2.0
"""Jobs on a site whose nodes run pre-hooks, from the match to the settlement."""

from dataclasses import replace

import pytest
from tests import billing_oracle
from tests.services.supervisor.supervisor_setup import CUSTOMER, SupervisorSetup

from gridstead.domain.jobs.lifecycle import JobState

TIMEOUT_S = 30


@pytest.fixture
def grid():
    setup = SupervisorSetup()
    setup.policy = replace(setup.policy, hook_timeout_s=TIMEOUT_S)
    setup.start_supervisor()
    return setup


def report(grid, event, attempt, occurred_at):
    grid.reports.add(
        event, slurm_job_id=attempt.slurm_job_id, uid=attempt.uid, occurred_at=occurred_at
    )


def test_a_job_whose_pre_hook_fails_is_panicked_and_refunded(grid):
    number, slurm_job_id = grid.request_running_job()
    attempt = grid.slurm.attempt(slurm_job_id)
    report(grid, "pre_hook_failed", attempt, grid.clock.now())
    grid.slurm.end(slurm_job_id, "CANCELLED")
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.PANICKED
    assert job.final_cost == 0
    assert grid.ledger.balance(CUSTOMER) == job.escrow


def test_a_job_that_reports_a_failed_pre_hook_after_its_start_is_billed(grid):
    number, slurm_job_id = grid.request_running_job()
    attempt = grid.slurm.attempt(slurm_job_id)
    report(grid, "start", attempt, attempt.started_at + 2)
    grid.clock.advance(60)
    report(grid, "pre_hook_failed", attempt, grid.clock.now())
    grid.slurm.end(slurm_job_id, "CANCELLED")
    elapsed_s = grid.slurm.attempt(slurm_job_id).elapsed_s
    grid.run_steps()

    job = grid.ledger.job(number)
    assert job.state is JobState.CANCELLED
    assert job.final_cost == billing_oracle.cost(elapsed_s - 2, job.price_per_min)
