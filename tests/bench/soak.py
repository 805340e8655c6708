#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run many short jobs through a whole grid while its services are killed, and check every job.

Several customers submit jobs to a grid with three providers. The chain (anvil, one block per
second), the meta-scheduler, the Job Definition service and the three supervisors are real
processes. Slurm is simulated behind the real agent. At moments that the seed determines, a service
is killed with SIGKILL, an agent is stopped, or the chain does not answer. A moment later it is
started again.

The table shows how many jobs were lost, ran or were settled twice, or were billed wrongly. It also
shows the jobs per second and the time of each stage of a job. The times of the chain and of Slurm
are whole seconds. The exit code is 1 if there is any such fault, and 130 after Ctrl-C. The campaign
needs no lab.
"""

import argparse
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # must be set before gRPC is imported

import structlog

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "control")]

from tests.bench.job_traces import STAGES, ChainTraces, stage_seconds  # noqa: E402
from tests.bench.process_grid import CREDITS_EACH, ProcessGrid  # noqa: E402
from tests.bench.service_kills import ServiceKiller, choose_kills  # noqa: E402
from tests.bench.simulated_cluster import job_command  # noqa: E402
from tests.bench.soak_checks import (  # noqa: E402
    NOT_SETTLED,
    Faults,
    SoakJob,
    check_jobs,
    expected_changes,
)
from tests.devnet import COIN  # noqa: E402
from tests.fakes.definitions import wire_workflow  # noqa: E402

from gridstead.adapters.chain.customer import JobRequest  # noqa: E402
from gridstead.adapters.definitions.job_definitions import submit_workflow  # noqa: E402
from gridstead.domain.jobs.billing import Resources  # noqa: E402
from gridstead.errors import JobDefinitionUnavailable  # noqa: E402
from gridstead.services.simulation.figures import percentile  # noqa: E402

RESOURCES = Resources(gpus=0, tasks=1, cpus_per_task=1, memory_per_cpu_mb=64)
ESCROW = 100 * COIN
MAX_RUN_S = 6
FAILING_JOBS = 0.1  # the fraction of the jobs whose exit code is not 0
REQUESTS_AT_ONCE = 20
RETRY_S = 0.2
PROGRESS_INTERVAL_S = 5
POLL_S = 0.5
LAST_WAIT_S = 10
STALL_TIMEOUT_S = 300  # the campaign ends if no job ends in this time
SHOWN_FAULTS = 20
INTERRUPTED = 130  # the exit code after Ctrl-C


def main():
    """Run the campaign, print the figures and return the exit code."""
    options = parse_options()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    report_progress(f"seed {options.seed}")
    folder = Path(tempfile.mkdtemp(prefix="gridstead-soak-"))
    soak = Soak(options, folder)
    try:
        soak.run()
    except KeyboardInterrupt:
        soak.is_interrupted = True
    finally:
        soak.close()
    return report(soak)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000, help="number of jobs")
    parser.add_argument("--customers", type=int, default=5, help="number of customers")
    parser.add_argument(
        "--open-jobs", type=int, default=500, help="the most jobs that are not settled at a time"
    )
    parser.add_argument(
        "--kills", type=int, help="number of kills (default: one for 100 jobs, at least 5)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the jobs and of the kills")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    options = parser.parse_args()
    for name in ("jobs", "customers", "open_jobs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.kills is None:
        options.kills = max(5, options.jobs // 100)
    return options


def random_job(source, script_number):
    """Return a random job."""
    exit_code = 1 if source.random() < FAILING_JOBS else 0
    return SoakJob(
        script_number=script_number, run_s=source.randint(1, MAX_RUN_S), exit_code=exit_code
    )


class Soak:
    """The campaign.

    Args:
        options: The options of the command.
        folder: An existing folder for the databases and outputs of the services.

    Attributes:
        jobs: The requested jobs, by number.
        traces: The events of the jobs. None until the grid has started.
        kills: The kills that were performed.
        is_interrupted: Whether Ctrl-C ended the campaign.
        seconds: The time from the first request to the last settlement.
    """

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.jobs = {}
        self.traces = None
        self.kills = []
        self.is_interrupted = False
        self.seconds = 0.0
        self.balance_errors = []
        self._grid = None
        self._errors = []
        self._is_stopping = threading.Event()
        self._threads = []

    def run(self):
        """Run all jobs. Stop early if no job ends for ``STALL_TIMEOUT_S``."""
        options, source = self.options, random.Random(self.options.seed)
        self._grid = grid = ProcessGrid(self.folder, options.customers, report_progress)
        grid.start()
        self.traces = ChainTraces(grid.devnet.node, grid.devnet.contracts, grid.ledger)
        jobs = [random_job(source, number) for number in range(options.jobs)]
        kills = choose_kills(source, list(grid.faults), jobs=options.jobs, count=options.kills)
        killer = ServiceKiller(
            grid.faults,
            kills,
            ended_jobs=lambda: self.traces.ended_count,
            report_progress=report_progress,
        )
        report_progress(f"{options.jobs} jobs, {len(kills)} kills of {', '.join(grid.faults)}")
        killer.start()
        self._start_submitters(jobs)
        try:
            self._wait_until_settled()
        finally:
            self._is_stopping.set()
            killer.stop()
            self.kills = killer.done
        time.sleep(LAST_WAIT_S)  # a second settlement of a job would arrive in this time
        self.traces.read()
        self.balance_errors = self._check_balances()

    def close(self):
        """Stop all threads and processes."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()
        if self._grid is not None:
            self._grid.close()

    def runs_by_number(self):
        """Return what Slurm ran for each job."""
        runs = defaultdict(list)
        for provider in self._grid.providers if self._grid else ():
            for run in provider.cluster.slurm.runs():
                runs[run.job_id.number].append(run)
        return runs

    def find_faults(self, runs_by_number):
        """Return the faults of the requested jobs, and of the balances."""
        if self.traces is None:
            return Faults()
        prices = {provider.address: provider.prices for provider in self._grid.providers}
        faults = check_jobs(self.jobs, self.traces.jobs, runs_by_number, prices, RESOURCES)
        faults.misbilled += self.balance_errors
        return faults

    def _start_submitters(self, jobs):
        """Start a thread for each customer, which submits every n-th job."""
        customers = self._grid.customers
        for index, customer in enumerate(customers):
            customer_jobs = jobs[index :: len(customers)]
            thread = threading.Thread(target=self._submit_all, args=(customer, customer_jobs))
            self._threads.append(thread)
            thread.start()

    def _submit_all(self, customer, jobs):
        """Submit the jobs of a customer, and pass an exception to the main thread."""
        max_open_jobs = max(1, self.options.open_jobs // self.options.customers)
        batch_size = min(REQUESTS_AT_ONCE, max_open_jobs)
        try:
            for start in range(0, len(jobs), batch_size):
                batch = jobs[start : start + batch_size]
                while start + len(batch) - self._ended_jobs_of(customer) > max_open_jobs:
                    if self._is_stopping.wait(POLL_S):
                        return
                self._submit(customer, batch)
        except BaseException as error:
            self._errors.append(error)
            raise

    def _ended_jobs_of(self, customer):
        return self.traces.ended_by_customer[customer.address]

    def _submit(self, customer, batch):
        """Store the scripts of some jobs, and request the jobs."""
        requests = []
        for job in batch:
            script_id = self._store_script(job)
            if script_id is None:
                return
            request = JobRequest(resources=RESOURCES, batch_location_hash=script_id, escrow=ESCROW)
            requests.append(request)
        numbers = customer.request_jobs(requests)
        self.jobs.update(zip(numbers, batch, strict=True))

    def _store_script(self, job):
        """Store the script of a job and return its id. Return None if the campaign stops."""
        command = job_command(job.script_number, run_s=job.run_s, exit_code=job.exit_code)
        workflow = wire_workflow(enableLogging=False, steps=[{"run": {"command": command}}])
        definitions = self._grid.definitions
        while not self._is_stopping.is_set():
            try:
                return submit_workflow(
                    definitions.url, workflow, ca=definitions.authority.certificate
                )
            except JobDefinitionUnavailable:
                self._is_stopping.wait(RETRY_S)
        return None

    def _wait_until_settled(self):
        """Read the chain until all jobs have ended, and report the progress."""
        start_s = changed_s = reported_s = time.monotonic()
        count, ended_count = self.options.jobs, 0
        while ended_count < count:
            time.sleep(POLL_S)
            if self._errors:
                raise self._errors[0]
            self.traces.read()
            now_s = time.monotonic()
            self.seconds = now_s - start_s
            if self.traces.ended_count > ended_count:
                ended_count, changed_s = self.traces.ended_count, now_s
            if now_s - reported_s >= PROGRESS_INTERVAL_S:
                reported_s = now_s
                requested_count = len(self.traces.jobs)
                report_progress(
                    f"{self.seconds:5.0f} s: {requested_count} requested, {ended_count} settled"
                )
            if now_s - changed_s > STALL_TIMEOUT_S:
                report_progress(f"no job has ended for {STALL_TIMEOUT_S} s")
                return

    def _check_balances(self):
        """Return the customers and providers whose credits differ from their jobs' bills."""
        changes = expected_changes(self.traces.jobs)
        initial = {customer.address: CREDITS_EACH * COIN for customer in self._grid.customers}
        initial |= {provider.address: 0 for provider in self._grid.providers}
        errors = []
        for address, initial_wei in initial.items():
            expected_wei = initial_wei + changes[address]
            balance_wei = self._grid.devnet.as_admin.balance(address)
            if balance_wei != expected_wei:
                errors.append(f"{address}: has {balance_wei} instead of {expected_wei} wei")
        return errors


def stage_percentiles(traces, runs_by_number):
    """Return p50 and p99 of each stage of the settled jobs, in seconds."""
    seconds_by_stage = {stage: [] for stage in STAGES}
    for number, trace in traces.items():
        runs = runs_by_number.get(number)
        if not trace.ends or not runs or runs[-1].ended_at is None:
            continue
        for stage, seconds in zip(STAGES, stage_seconds(trace, runs[-1]), strict=True):
            seconds_by_stage[stage].append(seconds)
    figures = {}
    for stage, values in seconds_by_stage.items():
        values.sort()
        figures[stage] = {"p50_s": percentile(values, 50), "p99_s": percentile(values, 99)}
    return figures


def figures_of(soak):
    """Return the figures of the campaign, with the keys of ``--json``, and the faults."""
    runs_by_number = soak.runs_by_number()
    faults = soak.find_faults(runs_by_number)
    traces = soak.traces.jobs if soak.traces else {}
    settled_traces = [trace for trace in traces.values() if trace.ends]
    if soak.is_interrupted:
        # The campaign did not wait for these jobs, so they are not lost.
        faults.lost = [line for line in faults.lost if not line.endswith(NOT_SETTLED)]
    seconds = soak.seconds
    figures = {
        "seed": soak.options.seed,
        "complete": not soak.is_interrupted,
        "jobs": soak.options.jobs,
        "requested": len(traces),
        "settled": len(settled_traces),
        "states": Counter(trace.ends[-1].state.name for trace in settled_traces),
        "kills": Counter(kill.service for kill in soak.kills),
        "lost": len(faults.lost),
        "doubled": len(faults.doubled),
        "misbilled": len(faults.misbilled),
        "seconds": round(seconds, 1),
        "jobs_per_s": round(len(settled_traces) / seconds, 2) if seconds else 0.0,
        "stages": stage_percentiles(traces, runs_by_number),
        "jobs_by_provider": Counter(trace.provider for trace in settled_traces),
        "cpu_s": round(sum(os.times()[:4])),  # of this process and of all services
        "load": round(os.getloadavg()[0], 1),
        "passed": not faults,
    }
    return figures, faults


def report(soak):
    """Print the figures and the first faults, and return the exit code."""
    figures, faults = figures_of(soak)
    if soak.options.json:
        print(json.dumps(figures, indent=2))
    else:
        print_table(figures)
    for kind in ("lost", "doubled", "misbilled"):
        for line in getattr(faults, kind)[:SHOWN_FAULTS]:
            report_progress(f"{kind}: {line}")
    if faults:
        report_progress(f"the outputs of the services are in {soak.folder}")
        return 1
    shutil.rmtree(soak.folder)
    return INTERRUPTED if soak.is_interrupted else 0


def print_table(figures):
    """Print the figures for people."""
    if not figures["complete"]:
        print("interrupted: the figures are those of a part of the jobs")
    for name in ("requested", "settled", "lost", "doubled", "misbilled"):
        print(f"{name:10} {figures[name]:8}")
    print(f"\n{'stage':10} {'p50, s':>8} {'p99, s':>8}")
    for stage, times in figures["stages"].items():
        print(f"{stage:10} {times['p50_s']:8} {times['p99_s']:8}")
    for title, key in (("states", "states"), ("kills", "kills"), ("jobs of", "jobs_by_provider")):
        counts = [f"{name} {count}" for name, count in sorted(figures[key].items())]
        print(f"{title}: " + ", ".join(counts))
    print(f"{figures['jobs_per_s']} jobs/s in {figures['seconds']} s, seed {figures['seed']}")
    print(f"CPU time of all processes: {figures['cpu_s']} s")
    print(f"machine: {os.cpu_count()} cores, load {figures['load']}")


def report_progress(line):
    """Print a line of progress."""
    print(f"campaign: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
