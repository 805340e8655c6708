# SPDX-License-Identifier: Apache-2.0
"""The run of a soak: submits the jobs, has services killed and waits until all jobs are settled."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict

from tests.bench.job_traces import ChainTraces
from tests.bench.service_kills import ServiceKiller, choose_kills
from tests.bench.soak_checks import Faults, SoakJob, check_jobs, expected_changes
from tests.devnet import COIN
from tests.fakes.definitions import wire_workflow

from gridstead.adapters.chain.customer import JobRequest
from gridstead.domain.jobs.billing import Resources
from gridstead.errors import JobDefinitionUnavailable

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
        open_grid: Returns the grid, which does not run yet: a ``ProcessGrid`` or a ``LabSoakGrid``.
        report_progress: A function that prints a line of progress.

    Attributes:
        options: The options of the command.
        jobs: The requested jobs, by number.
        traces: The events of the jobs. None until the grid has started.
        runs_by_number: What Slurm ran for each job. Known after ``close``.
        provider_names: The names of the providers, by address.
        kills: The kills that were performed.
        is_interrupted: Whether Ctrl-C ended the campaign.
        seconds: The time from the first request to the last settlement.
    """

    def __init__(self, options, open_grid, report_progress):
        self.options = options
        self.jobs = {}
        self.traces = None
        self.runs_by_number = defaultdict(list)
        self.provider_names = {}
        self.kills = []
        self.is_interrupted = False
        self.seconds = 0.0
        self._open_grid = open_grid
        self._report_progress = report_progress
        self._balance_errors = []
        self._initial_balances = {}
        self._prices = {}
        self._grid = None
        self._killer = None
        self._errors = []
        self._is_stopping = threading.Event()
        self._threads = []

    def run(self):
        """Run all jobs. Stop early if no job ends in time, or at the time limit."""
        self._grid = grid = self._open_grid()
        grid.start()
        self._read_providers()
        self.traces = ChainTraces(grid.node, grid.contracts, grid.ledger)
        options, source = self.options, random.Random(self.options.seed)
        jobs = [random_job(source, number) for number in range(options.jobs)]
        self._start_killer(source)
        self._start_submitters(jobs)
        try:
            self._wait_until_settled()
        finally:
            self._is_stopping.set()
            self._killer.stop()
            self.kills = self._killer.done
        time.sleep(LAST_WAIT_S)  # a second settlement of a job would arrive in this time
        self.traces.read()
        self._balance_errors = self._check_balances()

    def close(self):
        """Read what Slurm ran, and stop all threads and processes."""
        self._is_stopping.set()
        if self._killer is not None:
            self._killer.stop()
        for thread in self._threads:
            thread.join()
        if self._grid is None:
            return
        try:
            for provider in self._grid.providers:
                for run in provider.runs():
                    self.runs_by_number[run.job_id.number].append(run)
        finally:
            self._grid.close()

    def find_faults(self):
        """Return the faults of the requested jobs, and of the balances."""
        if self.traces is None:
            return Faults()
        faults = check_jobs(
            self.jobs, self.traces.jobs, self.runs_by_number, self._prices, RESOURCES
        )
        faults.misbilled += self._balance_errors
        return faults

    def _read_providers(self):
        """Read the providers, and the credits of the customers and providers."""
        grid = self._grid
        for provider in grid.providers:
            self.provider_names[provider.address] = provider.name
            self._prices[provider.address] = provider.prices
        for account in (*grid.customers, *grid.providers):
            self._initial_balances[account.address] = self._balance(account.address)

    def _balance(self, address):
        """Return the credits of an address, wei."""
        return self._grid.customers[0].balance(address)

    def _start_killer(self, source):
        """Start the thread that kills services. The random numbers are those of ``source``."""
        options, faults = self.options, self._grid.faults
        kills = choose_kills(source, list(faults), jobs=options.jobs, count=options.kills)
        self._killer = ServiceKiller(
            faults,
            kills,
            ended_jobs=lambda: self.traces.ended_count,
            report_progress=self._report_progress,
        )
        self._report_progress(f"{options.jobs} jobs, {len(kills)} kills of {', '.join(faults)}")
        self._killer.start()

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
            request = JobRequest(
                resources=RESOURCES,
                batch_location_hash=script_id,
                escrow=ESCROW,
                uses=self._grid.required_labels(job),
            )
            requests.append(request)
        numbers = customer.request_jobs(requests)
        self.jobs.update(zip(numbers, batch, strict=True))

    def _store_script(self, job):
        """Store the script of a job and return its id. Return None if the campaign stops."""
        command = self._grid.job_command(job)
        workflow = wire_workflow(enableLogging=False, steps=[{"run": {"command": command}}])
        while not self._is_stopping.is_set():
            try:
                return self._grid.store_script(workflow)
            except JobDefinitionUnavailable:
                self._is_stopping.wait(RETRY_S)
        return None

    def _wait_until_settled(self):
        """Read the chain until all jobs have ended, and report the progress."""
        start_s = changed_s = reported_s = time.monotonic()
        count, ended_count = self.options.jobs, 0
        while ended_count < count:
            time.sleep(POLL_S)
            for error in (*self._errors, *self._killer.errors):
                raise error
            self.traces.read()
            now_s = time.monotonic()
            self.seconds = now_s - start_s
            if self.traces.ended_count > ended_count:
                ended_count, changed_s = self.traces.ended_count, now_s
            if now_s - reported_s >= PROGRESS_INTERVAL_S:
                reported_s = now_s
                requested_count = len(self.traces.jobs)
                self._report_progress(
                    f"{self.seconds:5.0f} s: {requested_count} requested, {ended_count} settled"
                )
            if now_s - changed_s > STALL_TIMEOUT_S:
                self._report_progress(f"no job has ended for {STALL_TIMEOUT_S} s")
                return
            if self.options.time_limit_s and self.seconds > self.options.time_limit_s:
                self._report_progress("the time limit is reached")
                return

    def _check_balances(self):
        """Return the customers and providers whose credits differ from their jobs' bills."""
        changes = expected_changes(self.traces.jobs)
        errors = []
        for address, initial_wei in self._initial_balances.items():
            expected_wei = initial_wei + changes[address]
            balance_wei = self._balance(address)
            if balance_wei != expected_wei:
                errors.append(f"{address}: has {balance_wei} instead of {expected_wei} wei")
        return errors
