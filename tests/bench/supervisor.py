#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure how the time of the supervisor's plan grows with the number of jobs in flight.

A third of the jobs waits in Slurm, a third runs, and a third has ended and is settled. Each ended
job has a report of its node. The benchmark plans a snapshot with fewer jobs and one with more jobs
in turn. The exit code is 1 if the plan with more jobs takes longer than the limit, or if the time
grows much faster than the number of jobs. The benchmark needs no lab and no chain.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.unit.domain.builders import (  # noqa: E402
    POLICY,
    T0,
    accounting_sample,
    attempt,
    controller_sample,
    job,
    snapshot,
    submitted_record,
)

from gridstead.domain.jobs.lifecycle import JobState  # noqa: E402
from gridstead.domain.supervisor.attempt import NodeReport  # noqa: E402
from gridstead.domain.supervisor.reconcile import plan_jobs  # noqa: E402

MAX_PLAN_S = 0.5
MAX_GROWTH = 1.5  # the largest ratio of the times per job


def main():
    """Measure both plans, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs in the larger snapshot")
    parser.add_argument("--rounds", type=int, default=5, help="plans of each snapshot")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    counts = (options.jobs // 10, options.jobs)
    seconds = {count: [] for count in counts}
    for _ in range(options.rounds):
        for count in counts:
            seconds[count].append(plan_seconds(count))
    return report({count: statistics.median(seconds[count]) for count in counts}, options)


def plan_seconds(count):
    """Return how long it takes to index and to plan a snapshot of ``count`` jobs."""
    parts = snapshot_parts(count)
    gc.collect()
    start_s = time.perf_counter()
    # The samples and the snapshot build their indexes when they are created.
    taken = snapshot(
        parts["jobs"],
        parts["records"],
        controller_sample=controller_sample(*parts["listed"]),
        accounting_sample=accounting_sample(*parts["recorded"]),
        reports=tuple(parts["reports"]),
    )
    actions = plan_jobs(taken, POLICY)
    plan_s = time.perf_counter() - start_s
    assert len(actions) >= count // 3, "the ended jobs are not settled"
    return plan_s


def snapshot_parts(count):
    """Return the jobs, the journal's records, Slurm's lists and the reports of ``count`` jobs."""
    parts = {"jobs": [], "records": [], "listed": [], "recorded": [], "reports": []}
    for number in range(1, count + 1):
        state = ("PENDING", "RUNNING", "COMPLETED")[number % 3]
        job_state = JobState.SCHEDULED if state == "PENDING" else JobState.RUNNING
        each_job = job(job_state, number=number, batch_location_hash=f"script-{number}")
        each_attempt = attempt(each_job, state, slurm_job_id=number)
        parts["jobs"].append(each_job)
        parts["records"].append(submitted_record(each_job, slurm_job_id=number))
        parts["listed"].append(each_attempt)
        if state == "COMPLETED":
            parts["recorded"].append(each_attempt)
            parts["reports"].append(
                NodeReport(
                    sequence=number,
                    event="end",
                    slurm_job_id=number,
                    uid=each_attempt.uid,
                    occurred_at=T0 + 31,
                )
            )
    return parts


def report(seconds_by_count, options):
    """Print the medians and the growth, and return the exit code."""
    fewer, more = sorted(seconds_by_count)
    growth = (seconds_by_count[more] / more) / (seconds_by_count[fewer] / fewer)
    has_passed = seconds_by_count[more] <= MAX_PLAN_S and growth <= MAX_GROWTH
    load = round(os.getloadavg()[0], 1)
    if options.json:
        rows = [{"jobs": count, "plan_s": seconds} for count, seconds in seconds_by_count.items()]
        figures = {"runs": rows, "growth": round(growth, 3), "load": load, "passed": has_passed}
        print(json.dumps(figures, indent=2))
        return 0 if has_passed else 1
    print(f"{'jobs in flight':>14} {'plan, ms':>10} {'per job, µs':>12}")
    for count, seconds in seconds_by_count.items():
        print(f"{count:14} {1000 * seconds:10.1f} {1e6 * seconds / count:12.1f}")
    print(f"growth of the time per job: {growth:.2f} (at most {MAX_GROWTH})")
    print(f"machine: {os.cpu_count()} cores, load {load}")
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
