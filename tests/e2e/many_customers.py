# SPDX-License-Identifier: Apache-2.0
"""Connections of customers to the grid, which submit many jobs without `gridstead` commands."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

from gridstead.adapters.chain.customer import Customer, HistoryEvent, JobRequest
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.definitions.job_definitions import submit_workflow
from gridstead.config import ClientSettings, load
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Job
from gridstead.domain.jobs.lifecycle import COLD
from gridstead.wiring.chain import ChainAccess, open_chain, open_wallet
from gridstead.workflow.parse import from_graphql

CREDIT = 10**18
UPLOADS_AT_ONCE = 4
POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GridConnection:
    """A customer's connection to the grid."""

    settings: ClientSettings
    chain: ChainAccess
    customer: Customer

    @property
    def ledger(self) -> ChainLedger:
        """The public state of the chain."""
        return self.chain.ledger

    def close(self) -> None:
        """Close the connection to the chain."""
        self.chain.node.close()

    def submit(
        self, workflows: Sequence[dict[str, object]], *, credits_: int = 100
    ) -> tuple[int, ...]:
        """Store the scripts, request all jobs in one call and return their numbers in order."""
        with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
            requests = list(pool.map(partial(self._prepare, credits_=credits_), workflows))
        self.allow(len(workflows) * credits_)
        return self.customer.request_jobs(requests)

    def submit_at_once(
        self, workflows: Sequence[dict[str, object]], *, credits_: int = 100
    ) -> tuple[int, ...]:
        """Request each job as soon as its script is stored. Return the numbers, in any order.

        While one call is mined, further scripts are stored. The next call requests their jobs. The
        allowance must be sufficient.
        """
        numbers: list[int] = []
        with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
            missing = {
                pool.submit(self._prepare, workflow, credits_=credits_) for workflow in workflows
            }
            while missing:
                done, missing = wait(missing, return_when=FIRST_COMPLETED)
                numbers += self.customer.request_jobs(future.result() for future in done)
        return tuple(numbers)

    def store(self, workflow: dict[str, object]) -> str:
        """Store the script of a workflow, and return its id."""
        return submit_workflow(
            self.settings.job_definitions_url,
            from_graphql(workflow).to_graphql(),
            ca=self.settings.ca_file,
        )

    def allow(self, credits_: int) -> None:
        """Permit the contracts to take this many credits, if the allowance is lower."""
        amount = credits_ * CREDIT
        if self.customer.allowance() < amount:
            self.customer.allow(amount)

    def jobs(self, numbers: Iterable[int]) -> dict[int, Job]:
        """Return the jobs in the newest block, by number."""
        job_ids = map(self.chain.contracts.job_id, numbers)
        jobs = self.ledger.jobs(job_ids, at_block=self.ledger.head())
        return {job_id.number: job for job_id, job in jobs.items()}

    def wait_cold(self, numbers: Iterable[int], *, timeout: float) -> dict[int, Job]:
        """Wait until all jobs have ended (their states are in COLD). Return the jobs by number."""
        numbers, deadline = tuple(numbers), time.monotonic() + timeout
        while True:
            jobs = self.jobs(numbers)
            hot_states = {
                number: job.state.name for number, job in jobs.items() if job.state not in COLD
            }
            if not hot_states:
                return jobs
            assert time.monotonic() < deadline, (
                f"after {timeout} s these jobs have not ended: {hot_states}"
            )
            time.sleep(POLL_S)

    def end_events(self, number: int) -> list[HistoryEvent]:
        """Return the settlements and refunds of a job."""
        history = self.customer.job_history(number)
        return [event for event in history if event.event in {"JobSettled", "JobRefunded"}]

    def _prepare(self, workflow: dict[str, object], *, credits_: int) -> JobRequest:
        """Store the script of a job, and return the request of the job."""
        return _request(workflow, self.store(workflow), credits_ * CREDIT)


def connect(user) -> GridConnection:
    """Connect a user of the lab to the grid."""
    settings = load(ClientSettings, user.settings)
    chain, wallet = open_chain(settings.chain), open_wallet(settings.wallet)
    return GridConnection(
        settings=settings, chain=chain, customer=Customer(chain.node, chain.contracts, wallet)
    )


def submit_named(user, workflows: Mapping[str, dict[str, object]]) -> dict[str, int]:
    """Submit a user's workflows and return the job numbers by the names in ``workflows``."""
    connection = connect(user)
    try:
        return dict(zip(workflows, connection.submit(list(workflows.values())), strict=True))
    finally:
        connection.close()


def records_of(lab, jobs: Mapping[int, Job]) -> dict[int, list[dict[str, str]]]:
    """Return the accounting records of each job, by the number in the job key."""
    names = ",".join(job.id.slurm_job_name for job in jobs.values())
    records: dict[int, list[dict[str, str]]] = {number: [] for number in jobs}
    for record in lab.sacct(names):
        # The AdminComment is CHAIN/CONTRACT/NUMBER/HASH.
        _, _, number, _ = record["admincomment"].split("/")
        records[int(number, 16)].append(record)
    return records


def one_step(command: str, *, memory_mb: int = 64, cpus: int = 1) -> dict[str, object]:
    """Return a workflow with one command."""
    resources = {"tasks": 1, "cpusPerTask": cpus, "memPerCpu": memory_mb, "gpus": 0}
    return {
        "enableLogging": False,
        "resources": resources,
        "steps": [{"run": {"command": command}}],
    }


def _request(workflow: dict[str, object], script_id: str, escrow: int) -> JobRequest:
    requested = workflow["resources"]
    resources = Resources(
        gpus=requested["gpus"],
        tasks=requested["tasks"],
        cpus_per_task=requested["cpusPerTask"],
        memory_per_cpu_mb=requested["memPerCpu"],
    )
    return JobRequest(
        resources=resources, batch_location_hash=script_id, escrow=escrow, name="crowd"
    )
