# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks of `make campaign-soak`: each kind of fault is detected."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.bench.job_traces import JobEnd, JobTrace, stage_seconds
from tests.bench.lab_provider import LabProvider, LabService
from tests.bench.lab_soak_grid import open_lab
from tests.bench.simulated_cluster import SlurmRun
from tests.bench.soak_checks import SoakJob, check_jobs, expected_changes

from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.errors import ConfigError

JOB = SoakJob(script_number=7, run_s=30, exit_code=0)
RESOURCES = Resources(gpus=0, tasks=1, cpus_per_task=2, memory_per_cpu_mb=1)
PRICES = {"provider": Prices(gpu_per_min=0, cpu_per_min=100, memory_mb_per_min=0)}
# 30 s at 200 wei per minute cost 100 wei, of which the grid keeps 20.
END = JobEnd(settled_at=1050, state=JobState.FINISHED, cost=100, fee=20)
RUN = SlurmRun(
    job_id=JobId(chain_id=1, contract="0x" + "5c" * 20, number=1),
    script_number=7,
    submitted_at=1008,
    started_at=1010,
    ended_at=1040,
)


def trace(*ends, price_per_min=200):
    return JobTrace(
        number=1,
        customer="customer",
        escrow=1000,
        requested_at=1000,
        matched_at=1002,
        claimed_at=1005,
        provider="provider",
        price_per_min=price_per_min,
        ends=list(ends),
    )


def fault_counts(job_trace, *runs):
    """Return how many jobs are lost, doubled and misbilled."""
    faults = check_jobs({1: JOB}, {1: job_trace}, {1: list(runs)}, PRICES, RESOURCES)
    return len(faults.lost), len(faults.doubled), len(faults.misbilled)


def test_job_that_ran_once_and_is_paid_has_no_fault():
    assert fault_counts(trace(END), RUN) == (0, 0, 0)
    assert stage_seconds(trace(END), RUN) == (2, 3, 3, 2, 30, 10)


@pytest.mark.parametrize(
    ("job_trace", "runs"),
    [
        (trace(), [RUN]),
        (trace(replace(END, cost=0, fee=0)), []),
        (trace(replace(END, state=JobState.FAILED)), [RUN]),
        (trace(END), [replace(RUN, script_number=8)]),
    ],
    ids=["not settled", "did not run", "other state", "script of another job"],
)
def test_lost_job_is_detected(job_trace, runs):
    assert fault_counts(job_trace, *runs) == (1, 0, 0)


def test_request_without_an_event_is_lost():
    assert len(check_jobs({1: JOB}, {}, {}, PRICES, RESOURCES).lost) == 1


@pytest.mark.parametrize(
    ("job_trace", "runs"), [(trace(END), [RUN, RUN]), (trace(END, END), [RUN])]
)
def test_doubled_job_is_detected(job_trace, runs):
    assert fault_counts(job_trace, *runs) == (0, 1, 0)


@pytest.mark.parametrize(
    ("job_trace", "run"),
    [
        (trace(replace(END, cost=101)), RUN),
        (trace(replace(END, fee=19)), RUN),
        (trace(END, price_per_min=201), RUN),
        (trace(END), replace(RUN, ended_at=None)),
    ],
    ids=["cost", "fee", "price", "while it runs"],
)
def test_wrong_bill_is_detected(job_trace, run):
    assert fault_counts(job_trace, run) == (0, 0, 1)


def test_bill_may_end_when_the_node_reported_the_end():
    run = replace(RUN, ended_at=RUN.ended_at + 1, node_s=30)

    assert fault_counts(trace(END), run) == (0, 0, 0)
    assert fault_counts(trace(END), replace(run, node_s=29)) == (0, 0, 1)


def test_credits_of_unsettled_jobs_are_expected_in_escrow():
    traces = {1: trace(END), 2: trace()}

    assert expected_changes(traces) == {"customer": -1100, "provider": 80}


class RecordedLab:
    """A lab whose hosts answer with recorded outputs.

    Args:
        lines: The lines of the files that jobs wrote.
        records: The records of slurmdbd.
    """

    controller = "controller"

    def __init__(self, lines, records):
        self.stdout = "\n".join(lines)
        self.records = records

    def group(self, name):
        return [name]

    def run(self, *_):
        return self

    def records_since(self, _):
        return self.records

    def billed_seconds_of(self, records):
        return [int(record["elapsedraw"]) - 1 for record in records]


def record(slurm_job_id, number):
    return {
        "jobid": slurm_job_id,
        "jobname": f"0x{number:064x}",
        "state": "COMPLETED",
        "elapsedraw": "5",
        "submit": "100",
        "start": "102",
        "end": "107",
    }


def runs_of_lab(*lines):
    """Return the runs on a lab with the jobs 21 and 22, whose Slurm job ids are 8 and 9."""
    contracts = SimpleNamespace(job_id=lambda number: replace(RUN.job_id, number=number))
    lab = RecordedLab(lines, [record("8", 21), record("9", 22)])
    provider = SimpleNamespace(address="provider", prices=PRICES["provider"])
    return LabProvider(lab, provider, contracts, ["0xab"]).runs()


def test_runs_of_the_lab_have_the_numbers_that_scripts_wrote():
    (run,) = runs_of_lab("/home/ldap-users/0xab/soak-1/9:7")

    assert (run.job_id.number, run.script_number) == (22, 7)
    assert (run.submitted_at, run.started_at, run.ended_at) == (100, 102, 107)
    assert run.billable_s == (5, 4)


def test_script_that_ran_twice_in_one_slurm_job_has_two_runs():
    path = "/home/ldap-users/0xab/soak-1/9"

    assert len(runs_of_lab(f"{path}:7", f"{path}:7")) == 2


@pytest.mark.parametrize("state", ["active", "activating"])
def test_killed_service_is_up_only_with_another_process(state):
    lab = RecordedLab(["ActiveState=active", "MainPID=11"], [])
    service = LabService(lab, "control", "gridstead-supervisor")
    service.kill()

    assert not service.is_up()
    lab.stdout = f"ActiveState={state}\nMainPID=12"
    assert service.is_up() == (state == "active")


def test_error_without_a_lab_says_what_to_run(monkeypatch):
    monkeypatch.setenv("GRIDSTEAD_LAB_NAME", "missing")

    with pytest.raises(ConfigError, match=r"no lab with a grid in .*/missing") as error:
        open_lab()
    assert "`make up`" in error.value.hint
