# SPDX-License-Identifier: Apache-2.0
"""The read side of the grid's contracts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gridstead.adapters.chain.abi import reverted
from gridstead.adapters.chain.contracts import Contract, Contracts
from gridstead.adapters.chain.events import EventReader
from gridstead.adapters.chain.node import Node, Read, RpcError, to_block
from gridstead.adapters.chain.records import to_job, to_provider
from gridstead.domain.billing import price_per_minute
from gridstead.domain.events import Event
from gridstead.domain.job import Block, Job, Provider, QueueSizes
from gridstead.errors import ChainUnavailable

JOBS_PER_READ = 25


class ChainLedger:
    """Port Ledger."""

    def __init__(self, node: Node, contracts: Contracts) -> None:
        self._node = node
        self._contracts = contracts
        self._events = EventReader(contracts)

    def head(self) -> Block:
        """Return the newest block."""
        return to_block(self._node.ask("eth_getBlockByNumber", "latest", False))

    def block(self, number: int) -> Block | None:
        """Return the block at a height."""
        answer = self._node.ask("eth_getBlockByNumber", hex(number), False)
        return to_block(answer) if answer else None

    def jobs(self, numbers: Iterable[int], *, at: Block) -> dict[int, Job]:
        """Return jobs by number."""
        wanted = sorted({number for number in numbers if 0 < number < 1 << 256})
        if not wanted:
            return {}
        if not self._contracts.has_batches:
            return self._jobs_one_by_one(wanted, at)
        pages = [wanted[start : start + JOBS_PER_READ] for start in range(0, len(wanted), JOBS_PER_READ)]
        repository = self._contracts.jobs
        reads = [repository.read(name, [_id(n) for n in page]) for page in pages for name in ("getMany", "termsMany")]
        answers = self._node.read(reads, at=at)
        found: dict[int, Job] = {}
        for page, records, terms in zip(pages, answers[::2], answers[1::2], strict=True):
            if isinstance(records, RpcError) or isinstance(terms, RpcError):
                found |= self._jobs_one_by_one(page, at)  # one of them does not exist
                continue
            prices = [term[3] for term in repository.decode("termsMany", terms)]
            for record, price in zip(repository.decode("getMany", records), prices, strict=True):
                job = self._job(record, price)
                found[job.id.number] = job
        return found

    def events(self, *, first: int, last: int) -> tuple[Event, ...]:
        """Return the grid's events."""
        logs = self._node.ask("eth_getLogs", self._events.filter(first=first, last=last))
        events = [event for log in logs if (event := self._events.read(log)) is not None]
        return tuple(sorted(events, key=lambda event: (event.block, event.index)))

    def queue_sizes(self, provider: str, *, at: Block) -> QueueSizes:
        """Return how many entries wait in a provider's queues."""
        names = ("getClaimableJobQueueSize", "getCancellingJobQueueSize", "getTopUpJobQueueSize")
        claimable, cancelling, top_up = self._values(
            [(self._contracts.queues, name, (provider,)) for name in names], at
        )
        return QueueSizes(claimable=claimable, cancelling=cancelling, top_up=top_up)

    def providers(self, addresses: Iterable[str], *, at: Block) -> dict[str, Provider]:
        """Return providers: the record that is in force, or else the one that waits for approval."""
        wanted = sorted(set(addresses))
        found: dict[str, Provider] = {}
        for address, (active, waiting) in zip(wanted, self._provider_records(wanted, at), strict=True):
            record = active or waiting
            if record is not None:
                found[address] = record
        return found

    def waiting_provider(self, address: str, *, at: Block) -> Provider | None:
        """Return the record of a provider that waits for approval."""
        ((_, waiting),) = self._provider_records([address], at)
        return waiting

    def _provider_records(self, addresses: Sequence[str], at: Block) -> list[tuple[Provider | None, Provider | None]]:
        names = ("getProvider", "getWaitingForApprovalProvider", "isValidForScheduling", "isWaitingForApproval")
        views = [(self._contracts.providers, name, (a,)) for a in addresses for name in (*names, "isBanned")]
        values = self._values(views, at)
        records = []
        for start in range(0, len(values), 5):
            active, waiting, joined, waits, banned = values[start : start + 5]
            flags = {"waiting": waits, "banned": banned}
            requested = to_provider(waiting, joined=False, **flags) if waits else None
            records.append((to_provider(active, joined=joined, **flags), requested))
        return records

    def _jobs_one_by_one(self, numbers: Sequence[int], at: Block) -> dict[int, Job]:
        repository = self._contracts.jobs
        records = self._node.read([repository.read("get", _id(number)) for number in numbers], at=at)
        decoded = [repository.decode("get", record) for record in records if isinstance(record, bytes)]
        for refused in (record for record in records if isinstance(record, RpcError)):
            error = reverted("get", refused)
            if error.error_name != "InvalidJob":
                raise ChainUnavailable("could not read a job", detail=str(error))
        prices = self._prices(decoded, at)
        jobs = [self._job(record, price) for record, price in zip(decoded, prices, strict=True)]
        return {job.id.number: job for job in jobs}

    def _prices(self, records: Sequence[tuple[Any, ...]], at: Block) -> list[int]:
        """Return the prices per minute of jobs; plain DeepSquare does not fix them, so they are today's there."""
        if self._contracts.has_batches:
            return self._values([(self._contracts.jobs, "pricePerMinute", (record[0],)) for record in records], at)
        prices = []
        providers = self.providers({record[3].lower() for record in records}, at=at)
        for record in records:
            job, provider = self._job(record, 0), providers.get(record[3].lower())
            prices.append(price_per_minute(job.resources, provider.prices) if job.provider and provider else 0)
        return prices

    def _job(self, record: tuple[Any, ...], price: int) -> Job:
        grid = self._contracts
        return to_job(record, chain_id=grid.chain_id, contract=grid.meta_scheduler.address, price_per_min=price)

    def _values(self, views: Sequence[tuple[Contract, str, tuple[Any, ...]]], at: Block) -> list[Any]:
        """Return what views answer that never revert."""
        reads: list[Read] = [contract.read(name, *arguments) for contract, name, arguments in views]
        values = []
        for (contract, name, _), answer in zip(views, self._node.read(reads, at=at), strict=True):
            if isinstance(answer, RpcError):
                raise ChainUnavailable(f"could not read {name}", detail=str(reverted(name, answer)))
            values.append(contract.decode(name, answer))
        return values


def _id(number: int) -> bytes:
    return number.to_bytes(32)
