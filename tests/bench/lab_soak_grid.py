# SPDX-License-Identifier: Apache-2.0
"""The grid of a running lab for the soak: its own provider, and three simulated providers.

The simulated providers join at the start and are removed at the end. The customers and their
wallets remain in the lab, for the next run.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import lab_users
from tests.bench.lab_provider import LabProvider, LabService
from tests.bench.service_faults import AgentFault
from tests.bench.simulated_provider import Offer, equal_nodes
from tests.e2e.conftest import GridClient, Lab
from tests.e2e.many_customers import connect
from tests.e2e.second_provider import add_provider

from gridstead.adapters.definitions.job_definitions import submit_workflow
from gridstead.domain.jobs.job import Label
from gridstead.domain.jobs.lifecycle import COLD
from gridstead.errors import ConfigError, GridsteadError
from gridstead.wiring.contracts.deployment import check_chain

CREDITS_EACH = 10**6
CPU_PRICES = ("0.80", "0.85", "0.90")
NODES, CPUS_PER_NODE, MEMORY_PER_NODE_MB = 2, 4, 4000
CONTROL_SERVICES = ("supervisor", "meta-scheduler", "job-definitions")
DRAIN_TIMEOUT_S = 180  # until the jobs that a campaign left open have ended
POLL_S = 1


def open_lab():
    """Return the running lab $GRIDSTEAD_LAB_NAME, which has a grid.

    Raises:
        ConfigError: If there is no such lab, site.yml has not run on it, or its chain does not
            answer.
    """
    lab_grid = lab_users.lab_grid()
    hint = "Run `make up` first. $GRIDSTEAD_LAB_NAME names the lab."
    files = (lab_grid.folder / "state.json", lab_grid.chain / "deployment.json")
    if not all(file.exists() for file in files):
        raise ConfigError(f"no lab with a grid in {lab_grid.folder}", hint=hint)
    try:
        check_chain(lab_grid.rpc_url, lab_users.CHAIN_ID).close()
    except GridsteadError as error:
        message = f"the chain of the lab in {lab_grid.folder} does not answer"
        raise ConfigError(message, detail=str(error), hint=hint) from error
    return Lab(lab_grid.folder)


class LabSoakGrid:
    """The grid of the lab with the simulated providers. It has the attributes of ``ProcessGrid``.

    Args:
        lab: The lab.
        folder: An existing folder for the databases and outputs of the simulated providers.
        customer_count: The number of customers.
        report_progress: A function that prints a line of progress.
    """

    def __init__(self, lab, folder, customer_count, report_progress):
        self._report_progress = report_progress
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            grid = self._stack.enter_context(contextlib.closing(GridClient(lab)))
            names = [f"soak-{number + 1}" for number in range(customer_count)]
            users = grid.customers(names, credits_=CREDITS_EACH)
            self._connections = [self._connect(user) for user in users]
            for connection in self._connections:
                connection.allow(CREDITS_EACH)
            admin = self._connect(grid.admin)
            self.customers = [connection.customer for connection in self._connections]
            self.node, self.contracts = admin.chain.node, admin.chain.contracts
            self.ledger = admin.ledger
            addresses = [customer.address for customer in self.customers]
            self._simulated = []
            for number, price in enumerate(CPU_PRICES, start=1):
                subfolder = folder / f"simulated-{number}"
                subfolder.mkdir()
                provider = add_provider(grid, admin, subfolder, _offer(number, price), addresses)
                self._simulated.append(provider)
            self._lab_provider = self._new_lab_provider(lab, grid.provider, addresses)
            self.providers = [self._lab_provider, *self._simulated]
            self._zones = self._read_zones(grid.provider)
            self._services = _services(lab)
            self.faults = self._services | _faults(self._simulated)
            stack.pop_all()

    def start(self):
        """Start the simulated providers, and wait until they have joined the grid."""
        self._stack.callback(self._lab_provider.remove_files)
        self._stack.callback(self._wait_for_services)
        self._report_progress(f"starting {len(self._simulated)} simulated providers")
        for provider in self._simulated:
            self._stack.callback(provider.stop)
            self._stack.callback(provider.leave)
            provider.start()
        self._stack.callback(self._end_jobs)
        for provider in self._simulated:
            provider.approve()

    def close(self):
        """End the open jobs, remove the simulated providers, and wait for the lab's services."""
        self._stack.close()

    def job_command(self, job):
        """Return the command of a job (``SoakJob``)."""
        return self._lab_provider.job_command(job)

    def required_labels(self, job):
        """Return the label of one provider, so that each provider gets a fifth of the jobs.

        The meta-scheduler chooses the provider of every fifth job, which requires no label. Without
        labels, the cheapest provider would get all jobs, because a lab has a large queue allowance.
        """
        index = job.script_number % (len(self._zones) + 1)
        return (self._zones[index],) if index < len(self._zones) else ()

    def store_script(self, workflow):
        """Store the script of a workflow and return its id."""
        settings = self._connections[0].settings
        return submit_workflow(settings.job_definitions_url, workflow, ca=settings.ca_file)

    def _connect(self, user):
        connection = connect(user)
        self._stack.callback(connection.close)
        return connection

    def _new_lab_provider(self, lab, address, customers):
        """Return the lab's provider. An earlier campaign may have left simulated providers."""
        records = self.ledger.providers([address], at_block=self.ledger.head())
        if address in [provider.address for provider in self._simulated]:
            raise ConfigError(
                f"provider {address} of an earlier campaign is still in the grid",
                hint="Remove it with `gridstead provider remove`, as the administrator of the lab.",
            )
        return LabProvider(lab, records[address], self.contracts, customers)

    def _read_zones(self, lab_address):
        """Return the label ``zone`` of each provider."""
        records = self.ledger.providers([lab_address], at_block=self.ledger.head())
        zones = [label for label in records[lab_address].labels if label.key == "zone"]
        numbers = range(1, len(self._simulated) + 1)
        return zones + [Label(key="zone", value=f"simulated-{number}") for number in numbers]

    def _wait_for_services(self):
        """Wait until all services on the lab's hosts are active."""
        for service in self._services.values():
            service.start()

    def _end_jobs(self):
        """Cancel the jobs that have not ended, for example after Ctrl-C, and wait for their ends.

        Ctrl-C also ends the supervisors, which must run until then.
        """
        open_numbers = list(map(_open_jobs, self._connections))
        if not any(open_numbers):
            return
        self._report_progress(f"ending {sum(map(len, open_numbers))} jobs")
        for provider in self._simulated:
            provider.supervisor.kill()
            provider.supervisor.start()
        with ThreadPoolExecutor(len(self._connections)) as pool:
            list(pool.map(_cancel, self._connections, open_numbers))
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while any(map(_open_jobs, self._connections)):
            if time.monotonic() > deadline:
                self._report_progress(f"some jobs have not ended in {DRAIN_TIMEOUT_S} s")
                return
            time.sleep(POLL_S)


def _offer(number, price):
    return Offer(
        name=f"soak-provider-{number}",
        hardware=equal_nodes(NODES, cpus=CPUS_PER_NODE, memory_mb=MEMORY_PER_NODE_MB),
        prices={"gpu_credits": "8.5", "cpu_credits": price, "memory_mb_credits": "0.00004"},
        labels={"os": "linux", "zone": f"simulated-{number}"},
    )


def _services(lab):
    """Return the services on the lab's hosts that are killed, by name."""
    services = {"lab-agent": LabService(lab, lab.controller, "gridstead-agent")}
    for name in CONTROL_SERVICES:
        host = lab.group("control_plane")[0]
        services[f"lab-{name}"] = LabService(lab, host, f"gridstead-{name}")
    return services


def _faults(providers):
    """Return what a campaign may stop at the simulated providers, by name."""
    faults = {}
    for number, provider in enumerate(providers, start=1):
        faults[f"supervisor-{number}"] = provider.supervisor
        faults[f"agent-{number}"] = AgentFault(provider.cluster)
    return faults


def _open_jobs(connection):
    """Return the numbers of a customer's jobs that have not ended."""
    jobs = connection.jobs(connection.customer.job_numbers())
    return [number for number, job in jobs.items() if job.state not in COLD]


def _cancel(connection, numbers):
    for number in numbers:
        # The job may have ended.
        with contextlib.suppress(GridsteadError):
            connection.customer.cancel_job(number)
