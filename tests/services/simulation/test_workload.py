# SPDX-License-Identifier: Apache-2.0
"""Tests of the jobs of a simulation."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace

import pytest
from tests.services.simulation.builders import job, resources

from gridstead.errors import InvalidInput
from gridstead.services.simulation import workload as workload_module
from gridstead.services.simulation.workload import (
    DAY_S,
    Flood,
    Shape,
    Workload,
    generate,
    read_swf,
    with_flood,
)

WORKLOAD = Workload(
    duration_s=DAY_S,
    customers=4,
    zipf_exponent=1.0,
    shapes=[Shape(share=3, resources=resources(1)), Shape(share=1, resources=resources(4))],
    median_run_s=600,
    sigma=1.0,
    max_run_s=3600,
    paid_factor_max=2.0,
    daily_cycle=0.0,
    load=0.5,
    capacity_cpus=40,
)


def test_the_same_seed_gives_the_same_jobs():
    assert list(generate(WORKLOAD, seed=1)) == list(generate(WORKLOAD, seed=1))
    assert list(generate(WORKLOAD, seed=1)) != list(generate(WORKLOAD, seed=2))


def test_jobs_have_the_requested_work_and_are_in_order():
    jobs = list(generate(WORKLOAD, seed=1))

    work = sum(job.run_s * job.resources.cpus for job in jobs)
    assert work == pytest.approx(0.5 * 40 * DAY_S, rel=0.01)
    times = [job.submitted_at for job in jobs]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < DAY_S


def test_run_times_are_log_normal_and_limited():
    jobs = list(generate(WORKLOAD, seed=1))

    assert statistics.median(job.run_s for job in jobs) == pytest.approx(600, rel=0.1)
    assert max(job.run_s for job in jobs) == 3600
    assert all(job.run_s < job.paid_s <= 2 * job.run_s + 60 for job in jobs)


def test_customers_and_shapes_have_their_shares():
    jobs = list(generate(WORKLOAD, seed=1))

    customers = Counter(job.customer for job in jobs)
    assert customers["customer-1"] / customers["customer-4"] == pytest.approx(4, rel=0.3)
    cpus = Counter(job.resources.cpus for job in jobs)
    assert cpus[1] / cpus[4] == pytest.approx(3, rel=0.2)


def test_the_daily_cycle_moves_jobs_to_the_first_half_of_the_day():
    jobs = list(generate(replace(WORKLOAD, daily_cycle=1.0), seed=1))

    early_jobs = sum(job.submitted_at < DAY_S / 2 for job in jobs)
    # The integral of (1 + sin x) over half of its period, divided by that over the period.
    assert early_jobs / len(jobs) == pytest.approx(0.818, abs=0.05)


def test_too_many_jobs_are_refused(monkeypatch):
    monkeypatch.setattr(workload_module, "MAX_JOBS", 10)

    with pytest.raises(InvalidInput, match="more than 10 jobs"):
        list(generate(WORKLOAD, seed=1))


def test_flood_repeats_the_work_of_the_others():
    jobs = [job(0), job(100), job(110, "bob"), job(120, "eve")]
    flood = Flood(customer="eve", factor=3.0, start_s=50, end_s=200)

    all_jobs = with_flood(jobs, flood, seed=1)

    # Three copies of each job of the others from time 50 on.
    assert Counter(job.customer for job in all_jobs) == {"ada": 2, "bob": 1, "eve": 1 + 6}
    times = [job.submitted_at for job in all_jobs]
    assert times == sorted(times)
    assert all(50 <= job.submitted_at < 200 for job in all_jobs if job.customer == "eve")


def test_flood_with_a_fraction_repeats_some_of_the_jobs():
    jobs = [job(time) for time in range(1000)]
    flood = Flood(customer="eve", factor=0.5, start_s=0, end_s=1000)

    all_jobs = with_flood(jobs, flood, seed=1)

    assert len(all_jobs) == pytest.approx(1500, abs=50)


def line(**values):
    """Return a line of SWF. ``f2`` is the second number. All others are -1."""
    numbers = ["-1"] * 18
    for name, value in values.items():
        numbers[int(name.removeprefix("f")) - 1] = str(value)
    return " ".join(numbers)


def test_jobs_of_a_trace_are_read():
    lines = ["; comment", "", line(f2=30, f4=100, f5=8, f9=200, f12=7)]

    (job,) = read_swf(lines, memory_per_cpu_mb=500)

    assert (job.submitted_at, job.customer, job.run_s, job.paid_s) == (30, "user-7", 100, 200)
    assert job.resources == resources(1, tasks=8, memory_per_cpu_mb=500)


def test_unknown_values_of_a_trace_are_replaced():
    """Requested processors replace allocated ones, and the run time replaces requested time."""
    (job,) = read_swf([line(f2=0, f4=100, f8=4)], memory_per_cpu_mb=1)

    assert (job.resources.cpus, job.paid_s) == (4, 100)


@pytest.mark.parametrize("unknown", ["f2", "f4", "f5"])
def test_jobs_with_unknown_values_are_left_out(unknown):
    values = {"f2": 0, "f4": 100, "f5": 1} | {unknown: -1}

    assert list(read_swf([line(**values)], memory_per_cpu_mb=1)) == []


@pytest.mark.parametrize(
    "text", ["1 2 3", line(f4="x"), line(f4="inf"), line(f4="nan"), line() + " 1", "\0"]
)
def test_invalid_line_of_a_trace_is_refused(text):
    with pytest.raises(InvalidInput, match="invalid line 2 of the trace") as error_info:
        list(read_swf(["; comment", text], memory_per_cpu_mb=1))

    assert "18 numbers" in error_info.value.hint
