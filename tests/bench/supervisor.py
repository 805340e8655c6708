#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the supervisor with many jobs in flight: its plan, and its start.

Plan: a third of the jobs waits in Slurm, a third runs, and a third has ended and is settled. Each
ended job has a report of its node. The benchmark plans a snapshot with fewer jobs and one with more
jobs in turn.

Start: the jobs are RUNNING on a chain (anvil) with the grid's contracts. The journal is in SQLite,
and also has the entries of ten times as many closed jobs. Slurm is simulated; a third of the jobs
has ended there. The benchmark measures the time until a new supervisor has read the journal and
ended its first tick, which stores the settlements.

The exit code is 1 if the plan with more jobs or the start takes longer than its limit, or if the
time of the plan grows much faster than the number of jobs. The benchmark needs no lab.
"""

import argparse
import contextlib
import gc
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.running_jobs import SCRIPT_ID, BusyChain  # noqa: E402
from tests.fakes.ledger import SMALL  # noqa: E402
from tests.fakes.scheduler import FakeReports, FakeScheduler  # noqa: E402
from tests.services.supervisor.supervisor_setup import FakeScripts  # noqa: E402
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

from gridstead.adapters.clock import SystemClock  # noqa: E402
from gridstead.adapters.store.cursor import SqlCursor  # noqa: E402
from gridstead.adapters.store.database import Database  # noqa: E402
from gridstead.adapters.store.journal import SqlJournal  # noqa: E402
from gridstead.adapters.store.outbox import SqlOutbox  # noqa: E402
from gridstead.domain.jobs.ids import JobKey  # noqa: E402
from gridstead.domain.jobs.lifecycle import JobState  # noqa: E402
from gridstead.domain.supervisor.attempt import NodeReport  # noqa: E402
from gridstead.domain.supervisor.journal import EntryKind, JournalEntry  # noqa: E402
from gridstead.domain.supervisor.reconcile import plan_jobs  # noqa: E402
from gridstead.domain.supervisor.snapshot import SupervisorPolicy  # noqa: E402
from gridstead.domain.supervisor.submission import Script, Submission  # noqa: E402
from gridstead.services.chain.follower import Follower  # noqa: E402
from gridstead.services.supervisor.supervisor import Supervisor, SupervisorPorts  # noqa: E402

CONFIRMATIONS = 6
CLOSED_PER_JOB = 10
MAX_TIME_LIMIT_MIN = 7 * 24 * 60
MAX_START_S = 10.0
MAX_PLAN_S = 0.5
MAX_GROWTH = 1.5  # the largest ratio of the times per job


def main():
    """Measure the plans and the start, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=10_000,
        help="jobs in flight, at least 10 (default: 10,000, for which the limits are meant)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="plans of each snapshot")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.jobs < 10:
        parser.error("--jobs must be at least 10")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    counts = (options.jobs // 10, options.jobs)
    seconds = {count: [] for count in counts}
    for _ in range(options.rounds):
        for count in counts:
            seconds[count].append(plan_seconds(count))
    medians = {count: statistics.median(seconds[count]) for count in counts}
    return report(medians, start_seconds(options.jobs), options)


def start_seconds(count):
    """Return how long a supervisor with ``count`` jobs takes to start and to end its first tick."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gridstead-bench-")))
        chain = stack.enter_context(contextlib.closing(BusyChain(folder, report_progress)))
        chain.create_running_jobs(count)
        for _ in range(CONFIRMATIONS):
            chain.anvil.mine()
        database = stack.enter_context(contextlib.closing(Database(f"sqlite:///{folder}/state.db")))
        clock = SystemClock()
        slurm = FakeScheduler(clock)
        report_progress("writing the journal")
        journal = SqlJournal(database)
        fill_slurm_and_journal(chain, slurm, journal, count)
        follower = Follower(chain.ledger, SqlCursor(database, "bench"), confirmations=CONFIRMATIONS)
        follower.follow(lambda _events, _head: None)
        outbox = SqlOutbox(database, clock)
        policy = SupervisorPolicy(
            chain_id=chain.contracts.chain_id,
            contract=chain.contracts.meta_scheduler.address.lower(),
            provider=chain.provider.address,
            confirmations=CONFIRMATIONS,
        )
        ports = SupervisorPorts(
            clock=clock,
            ledger=chain.ledger,
            follower=follower,
            journal=journal,
            outbox=outbox,
            scheduler=slurm,
            accounting=slurm,
            reports=FakeReports(),
            scripts=FakeScripts(),
        )
        report_progress("measuring the start")
        start_s = time.perf_counter()
        Supervisor(ports, policy).tick()
        first_tick_s = time.perf_counter() - start_s
        settlement_count = len(outbox.open_entries())
        assert settlement_count == count // 3, f"the tick settled {settlement_count} jobs"
        return first_tick_s


def fill_slurm_and_journal(chain, slurm, journal, count):
    """Add running jobs to Slurm and to the journal. Every third job has ended in Slurm."""
    customer = chain.devnet.customer.address
    user = slurm.check_gate(customer).user
    claimed_at = SystemClock().now() - 60
    entries = []
    for number in range(1, count + 1):
        job_key = JobKey(job_id=chain.contracts.job_id(number), batch_location_hash=SCRIPT_ID)
        slurm_job_id = slurm.submit(
            Submission(
                job_key=job_key,
                user=user,
                resources=SMALL,
                time_limit_min=MAX_TIME_LIMIT_MIN,  # so that the tick extends no job
                script=Script(text="#!/bin/sh\n"),
            )
        )
        slurm.start(slurm_job_id)
        if number % 3 == 0:
            slurm.end(slurm_job_id)
        entries.append(
            JournalEntry(job_key=job_key, kind=EntryKind.CLAIMED, occurred_at=claimed_at)
        )
        for kind in (EntryKind.SUBMIT_INTENDED, EntryKind.SUBMITTED, EntryKind.SEEN):
            is_intention = kind is EntryKind.SUBMIT_INTENDED
            entries.append(
                JournalEntry(
                    job_key=job_key,
                    kind=kind,
                    occurred_at=claimed_at,
                    slurm_job_id=None if is_intention else slurm_job_id,
                )
            )
    for number in range(count + 1, count + 1 + CLOSED_PER_JOB * count):
        job_key = JobKey(job_id=chain.contracts.job_id(number), batch_location_hash=SCRIPT_ID)
        entries.extend(
            JournalEntry(job_key=job_key, kind=kind, occurred_at=claimed_at)
            for kind in (EntryKind.CLAIMED, EntryKind.SUBMIT_INTENDED, EntryKind.CLOSED)
        )
    journal.append(entries)


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


def report(seconds_by_count, start_s, options):
    """Print the figures, and return the exit code."""
    fewer, more = sorted(seconds_by_count)
    growth = (seconds_by_count[more] / more) / (seconds_by_count[fewer] / fewer)
    has_passed = (
        seconds_by_count[more] <= MAX_PLAN_S and growth <= MAX_GROWTH and start_s <= MAX_START_S
    )
    load = round(os.getloadavg()[0], 1)
    if options.json:
        rows = [{"jobs": count, "plan_s": seconds} for count, seconds in seconds_by_count.items()]
        figures = {
            "plans": rows,
            "growth": round(growth, 3),
            "start_s": round(start_s, 3),
            "load": load,
            "passed": has_passed,
        }
        print(json.dumps(figures, indent=2))
        return 0 if has_passed else 1
    print(f"{'jobs in flight':>14} {'plan, ms':>10} {'per job, µs':>12}")
    for count, seconds in seconds_by_count.items():
        print(f"{count:14} {1000 * seconds:10.1f} {1e6 * seconds / count:12.1f}")
    print(f"largest plan: {seconds_by_count[more]:.2f} s (at most {MAX_PLAN_S} s)")
    print(f"growth of the time per job: {growth:.2f} (at most {MAX_GROWTH})")
    print(f"start to the end of the first tick: {start_s:.1f} s (at most {MAX_START_S:.0f} s)")
    print(f"machine: {os.cpu_count()} cores, load {load}")
    return 0 if has_passed else 1


def report_progress(line):
    """Print a line of progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
