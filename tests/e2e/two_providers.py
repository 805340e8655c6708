# SPDX-License-Identifier: Apache-2.0
"""The lab's grid with a second provider, and the jobs with which tests fill both providers."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.bench.simulated_cluster import job_command
from tests.e2e import many_customers
from tests.e2e.conftest import CREDIT, wait_until
from tests.e2e.second_provider import CPUS_PER_NODE
from tests.e2e.waiting_jobs import LAB, SECOND, explain, size

from gridstead.adapters.chain.customer import JobRequest
from gridstead.adapters.matching.queue_view import pending_job
from gridstead.domain.jobs.lifecycle import JobState

# Each node of the second provider has room for one job of the load. Each of the two nodes of the
# lab has room for four such jobs, and then 4 of its 64 CPUs are free.
LOAD_SIZE = {"cpus": CPUS_PER_NODE, "memory_mb": 32}  # of one task
LOAD_RESOURCES = size(**LOAD_SIZE)
LOAD_CREDITS = 600  # pay for 42 minutes at the lab
CREDITS_EACH = 6_000  # of a customer, for all its jobs
SETTLEMENT_TIMEOUT_S = 240
EXPLAINED = ("no-provider", "waits-for-provider")  # causes that do not change within seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """A customer: its user of the lab, and its connection to the grid."""

    user: object
    connection: many_customers.GridConnection


class TwoProviders:
    """The grid with both providers and the customers."""

    def __init__(self, lab, grid, second, customers):
        self.lab = lab
        self.second = second
        self.customers = customers
        self.chain = customers[0].connection.chain
        self.addresses = {LAB: grid.provider, SECOND: second.address}
        self.first_block = self.chain.ledger.head().number
        self.resources = {}  # of all jobs, by number
        self.owners = {}  # the customers of all jobs, by number
        self.scripts = {}  # the number in the script of each job of the load, by job number
        self._release_file = f"released-{secrets.token_hex(4)}"

    def run_jobs(self, count_each):
        """Submit jobs of all customers at the same time, and return their numbers by customer.

        The jobs run until ``release``.
        """
        first_script = len(self.scripts)
        wait_for_release = f"until test -e ~/{self._release_file}; do sleep 1; done"

        def submit(index):
            first = first_script + index * count_each
            workflows = []
            for script_number in range(first, first + count_each):
                command = f"{wait_for_release}; {job_command(script_number, run_s=0, exit_code=0)}"
                workflow = many_customers.one_step(command, **LOAD_SIZE)
                workflows.append(workflow)
            return self.customers[index].connection.submit(workflows, credits_=LOAD_CREDITS)

        with ThreadPoolExecutor(len(self.customers)) as pool:
            numbers = list(pool.map(submit, range(len(self.customers))))
        for customer, numbers_of_customer in zip(self.customers, numbers, strict=True):
            self._remember(customer, dict.fromkeys(numbers_of_customer, LOAD_RESOURCES))
        scripts = range(first_script, first_script + count_each * len(self.customers))
        self.scripts |= zip(sum(numbers, ()), scripts, strict=True)
        return numbers

    def request(self, customer, jobs):
        """Request jobs that should wait for a cause (``WaitingJob``), and return their numbers.

        Only a provider that takes a job by mistake runs its script.
        """
        workflow = many_customers.one_step(job_command(0, run_s=0, exit_code=0))
        script_id = customer.connection.store(workflow)
        requests = []
        for job in jobs:
            request = JobRequest(
                resources=job.resources,
                batch_location_hash=script_id,
                escrow=job.credits_ * CREDIT,
                uses=job.uses,
                affinity=job.affinity,
            )
            requests.append(request)
        numbers = customer.connection.customer.request_jobs(requests)
        resources = [job.resources for job in jobs]
        self._remember(customer, dict(zip(numbers, resources, strict=True)))
        return numbers

    def _remember(self, customer, resources):
        self.resources.update(resources)
        self.owners.update(dict.fromkeys(resources, customer))

    def jobs(self):
        """Return all jobs of the tests, by number."""
        return self.customers[0].connection.jobs(self.resources)

    def wait_explained(self, number, code=""):
        """Wait until the queue view explains why a job waits, and return its answer.

        Args:
            code: The code of an obstacle that the answer must have. Empty for any obstacle.
        """
        settings = self.customers[0].connection.settings
        job_id = self.chain.contracts.job_id(number)

        def answer():
            answer = pending_job(settings.queue_url, job_id, ca=settings.ca_file)
            if answer is None or answer.cause not in EXPLAINED:
                return None
            codes = [obstacle.code for obstacle in answer.obstacles]
            return answer if not code or code in codes else None

        return wait_until(answer, timeout=20)

    def explain(self, number):
        """Return what `gridstead job why` prints about a job that the queue view explains."""
        self.wait_explained(number)
        return explain(self.owners[number].user, number)

    def release(self):
        """Let all running jobs end."""
        self.second.cluster.slurm.keeps_running = False
        homes = [f"/home/ldap-users/{each.user.address}" for each in self.customers]
        script = 'for home in "$@"; do test ! -d "$home" || touch "$home/$0"; done'
        self.lab.run("infra", "bash", "-euc", script, self._release_file, *homes)

    def cancel_pending_jobs(self, without=()):
        """Cancel the jobs that wait for a provider, except some jobs."""
        pending = []
        for number, job in self.jobs().items():
            if job.state is JobState.PENDING and number not in without:
                pending.append(number)

        def cancel(customer):
            for number in pending:
                if self.owners[number] is customer:
                    customer.connection.customer.cancel_job(number)

        with ThreadPoolExecutor(len(self.customers)) as pool:
            list(pool.map(cancel, self.customers))

    def end_all_jobs(self):
        """Cancel the jobs that wait, let the others end, and wait until all are settled."""
        self.cancel_pending_jobs()
        self.release()
        self.customers[0].connection.wait_cold(self.resources, timeout=SETTLEMENT_TIMEOUT_S)
