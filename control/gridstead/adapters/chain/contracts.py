# SPDX-License-Identifier: Apache-2.0
"""Where the grid's contracts are and which generation they are."""

from __future__ import annotations

from dataclasses import dataclass

from gridstead.adapters.chain.contract import Contract, ViewCall
from gridstead.adapters.chain.job_queues import ProviderJobQueues
from gridstead.adapters.chain.job_repository import JobRepository
from gridstead.adapters.chain.meta_scheduler import MetaSchedulerContract
from gridstead.adapters.chain.money import Constants, Credit
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.adapters.chain.provider_manager import ProviderManager
from gridstead.errors import ConfigError

__all__ = ["Contract", "Contracts", "find_contracts"]

COMPATIBLE_VERSION = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracts:
    """The contracts of one grid.

    Attributes:
        chain_id: EIP-155 chain id.
        version: Of our generation, as ``2.0.0``; empty for plain DeepSquare 1.2.
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
    def has_batches(self) -> bool:
        """Whether these are ours: batches, bills in seconds, start times, fixed prices, events of
        our own.

        Plain DeepSquare has none of them: a call each, whole minutes, starts at the time of the
        call, the price that the provider has when it settles, and events that cannot be searched by
        job.
        """
        return bool(self.version)


def find_contracts(node: Node, meta_scheduler: str) -> Contracts:
    """Return a grid's contracts, which its MetaScheduler names.

    Raises:
        ConfigError: If there is no MetaScheduler at the address, or one of a generation that we do
            not know.
        ChainUnavailable: If the chain does not answer.
    """
    chain_id = int(node.ask("eth_chainId"), 16)
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    found = MetaSchedulerContract(meta_scheduler)
    names = ("jobs", "providerManager", "providerJobQueues", "constants", "credit")
    views = [found.part(name) for name in names]
    *answers, version = node.read([view.read for view in (*views, found.version())], at_block=head)
    addresses = [_value(view, answer) for view, answer in zip(views, answers, strict=True)]
    jobs, providers, queues, constants, credit = addresses
    if not (jobs and providers and queues and constants and credit):
        hint = "Set chain.contract to the address that `gridstead contracts deploy` printed."
        raise ConfigError(f"cannot find the grid's contracts at {meta_scheduler}", hint=hint)
    told = _value(found.version(), version)
    if told and told.split(".")[0] != COMPATIBLE_VERSION:
        hint = "Install a release that was made for them."
        raise ConfigError(
            "cannot use the grid's contracts", detail=f"they have version {told}", hint=hint
        )
    return Contracts(
        chain_id=chain_id,
        version=told,
        meta_scheduler=found,
        jobs=JobRepository(jobs),
        providers=ProviderManager(providers),
        queues=ProviderJobQueues(queues),
        constants=Constants(constants),
        credit=Credit(credit),
    )


def _value(view: ViewCall[str], answer: bytes | RpcError) -> str:
    """Return what a view says, empty where nothing answers it."""
    return view.value(answer) if isinstance(answer, bytes) and answer else ""
