# SPDX-License-Identifier: Apache-2.0
"""The addresses and the version of a grid's contracts.

A grid has either Gridstead's contracts ("our contracts") or the contracts of DeepSquare 1.2 ("plain
DeepSquare"). Our contracts are derived from those of DeepSquare 1.2. Class ``Contracts`` is the one
place that says in what the generations of contracts differ. Other modules ask its properties and do
not compare versions.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.adapters.chain.contract import ViewCall
from gridstead.adapters.chain.job_queues import ProviderJobQueues
from gridstead.adapters.chain.job_repository import JobRepository
from gridstead.adapters.chain.meta_scheduler import MetaSchedulerContract
from gridstead.adapters.chain.money import Constants, Credit
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.adapters.chain.provider_manager import ProviderManager
from gridstead.domain.contracts.releases import (
    DEEPSQUARE,
    GENERATION_2,
    GENERATIONS,
    generation_of,
)
from gridstead.domain.jobs.ids import JobId
from gridstead.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracts:
    """The contracts of one grid.

    Attributes:
        chain_id: EIP-155 chain id.
        version: The version of our contracts, such as ``3.0.0``; empty for plain DeepSquare 1.2.
    """

    chain_id: int
    version: str
    meta_scheduler: MetaSchedulerContract
    jobs: JobRepository
    providers: ProviderManager
    queues: ProviderJobQueues
    constants: Constants
    credit: Credit

    @property
    def generation(self) -> int:
        """The generation of the contracts: 1 for plain DeepSquare, 2 or 3 for ours."""
        return generation_of(self.version) or DEEPSQUARE

    @property
    def has_batches(self) -> bool:
        """Whether these are our contracts, and not those of plain DeepSquare.

        Our contracts accept calls about several jobs, bill by the second, and store the start time
        that the provider reports. They fix the price at the match, and their events can be searched
        by job. With plain DeepSquare, each contract call is about one job, bills are in whole
        minutes, and the price is the provider's price at the settlement. A job starts when the call
        that reports the start is mined. Events cannot be searched by job.
        """
        return self.generation > DEEPSQUARE

    @property
    def has_terms(self) -> bool:
        """Whether JobRepository stores the terms of a job: its price and its start.

        Without terms, a job whose start equals its end has not run. DeepSquare 1.2 and 3.x show a
        job that ended without a start like this in the struct ``Job``. 2.x shows a start of 0.
        """
        return self.generation > DEEPSQUARE

    @property
    def has_cancel_requests(self) -> bool:
        """Whether the cancellation of a claimed job is a request to its provider.

        JobRepository then stores the time up to which such a job is billed. In 1.2 and 2.x, the
        cancellation ends the job at once and returns the whole escrow.
        """
        return self.generation > GENERATION_2

    @property
    def has_all_change_events(self) -> bool:
        """Whether each change of a job or of an approved provider emits an event.

        DeepSquare 1.2 emits no event for a top-up or for the cancellation of a running job until
        the provider claims it. Its jobs have the current price of their provider.
        """
        return self.generation > DEEPSQUARE

    @property
    def approves_records(self) -> bool:
        """Whether an approval names the record, so that the provider cannot replace it before.

        Contracts without this approve whatever record waits when the call is mined.
        """
        return self.generation > GENERATION_2

    def job_id(self, number: int) -> JobId:
        """Return the id of the job with a number."""
        return JobId(chain_id=self.chain_id, contract=self.meta_scheduler.address, number=number)


def find_contracts(node: Node, meta_scheduler: str) -> Contracts:
    """Return a grid's contracts. Read their addresses from the MetaScheduler contract.

    Raises:
        ConfigError: If there is no MetaScheduler at the address, or its version is not supported.
        ChainUnavailable: If the node does not answer.
    """
    chain_id = int(node.ask("eth_chainId"), 16)
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    grid = MetaSchedulerContract(meta_scheduler)
    getters = ("jobs", "providerManager", "providerJobQueues", "constants", "credit")
    views = [*map(grid.contract_address, getters), grid.version()]
    answers = node.read([view.read for view in views], at_block=head)
    jobs, providers, queues, constants, credit, version = map(_value_or_empty, views, answers)
    if not (jobs and providers and queues and constants and credit):
        hint = "Set chain.contract to the address that `gridstead contracts deploy` printed."
        raise ConfigError(f"cannot find the grid's contracts at {meta_scheduler}", hint=hint)
    if generation_of(version) is None:
        needed = " or ".join(f"{number}.x" for number in GENERATIONS if number > DEEPSQUARE)
        detail = f"their version is {version}, this release needs {needed}"
        hint = "Install a release that supports this version of the contracts."
        raise ConfigError("cannot use the grid's contracts", detail=detail, hint=hint)
    return Contracts(
        chain_id=chain_id,
        version=version,
        meta_scheduler=grid,
        jobs=JobRepository(jobs),
        providers=ProviderManager(providers),
        queues=ProviderJobQueues(queues),
        constants=Constants(constants),
        credit=Credit(credit),
    )


def _value_or_empty(view: ViewCall[str], answer: bytes | RpcError) -> str:
    """Return a view's result; empty if the contract does not have the view."""
    return view.value(answer) if isinstance(answer, bytes) and answer else ""
