# SPDX-License-Identifier: Apache-2.0
"""The read side of the grid's contracts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gridstead.adapters.chain.abi import reverted
from gridstead.adapters.chain.contract import ViewCall, ask
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.events import EventReader
from gridstead.adapters.chain.logs import read_logs
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.adapters.chain.records import ChainJobRecord
from gridstead.domain.billing import price_per_minute
from gridstead.domain.events import ChainEvent
from gridstead.domain.expiry import Timeouts
from gridstead.domain.job import Block, Job, Provider, QueueSizes
from gridstead.domain.lifecycle import COLD
from gridstead.errors import ChainUnavailable

JOBS_PER_READ = 25


class ChainLedger:
    """Port Ledger.

    Args:
        node: The chain.
        contracts: The grid.
        claims_of: A provider whose claims are all the events that are wanted; empty: all events
            are.
    """

    def __init__(self, node: Node, contracts: Contracts, *, claims_of: str = "") -> None:
        self._node = node
        self._contracts = contracts
        self._events = EventReader(contracts, claims_of=claims_of)
        self._kept: tuple[str, dict[int, Job]] = "", {}

    def head(self) -> Block:
        """Return the newest block."""
        return to_block(self._node.ask("eth_getBlockByNumber", "latest", False))

    def block(self, number: int) -> Block | None:
        """Return the block at a height."""
        answer = self._node.ask("eth_getBlockByNumber", hex(number), False)
        return to_block(answer) if answer else None

    def jobs(self, numbers: Iterable[int], *, at_block: Block) -> dict[int, Job]:
        """Return jobs by number; what a block holds never changes, so the jobs of the last one
        asked are kept.
        """
        wanted = sorted({number for number in numbers if 0 < number < 1 << 256})
        block, known = self._kept
        known = dict(known) if block == at_block.hash else {}
        new = [number for number in wanted if number not in known]
        if new:
            found = (
                self._jobs_by_page(new, at_block)
                if self._contracts.has_batches
                else self._jobs_one_by_one(new, at_block)
            )
            known |= {job.id.number: job for job in found}
            self._kept = at_block.hash, known
        return {number: known[number] for number in wanted if number in known}

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        """Return the grid's events."""
        logs = read_logs(self._node, self._events.filter(), first=first, end=end)
        return tuple(event for log in logs if (event := self._events.read(log)) is not None)

    def queue_sizes(self, provider: str, *, at_block: Block) -> QueueSizes:
        """Return how many entries wait in a provider's queues."""
        queues = self._contracts.queues
        views = [queues.claimable(provider), queues.cancelling(provider), queues.top_up(provider)]
        if self._contracts.has_batches:
            claimable, cancelling, top_up = ask(self._node, views, at_block=at_block)
        else:
            # A claim of stale entries alone reverts there, and would be tried for ever.
            claimable, cancelling, top_up, has = ask(
                self._node, [*views, queues.has_claimable(provider)], at_block=at_block
            )
            claimable = claimable if has else 0
        return QueueSizes(claimable=claimable, cancelling=cancelling, top_up=top_up)

    def providers(self, addresses: Iterable[str], *, at_block: Block) -> dict[str, Provider]:
        """Return providers: the record that is in force, or else the one that waits for approval."""
        wanted = sorted(set(addresses))
        found: dict[str, Provider] = {}
        for address, (active, waiting) in zip(
            wanted, self._provider_records(wanted, at_block), strict=True
        ):
            record = active or waiting
            if record is not None:
                found[address] = record
        return found

    def waiting_provider(self, address: str, *, at_block: Block) -> Provider | None:
        """Return the record of a provider that waits for approval."""
        ((_, waiting),) = self._provider_records([address], at_block)
        return waiting

    def timeouts(self, *, at_block: Block) -> Timeouts:
        """Return how long the grid waits for its providers; plain DeepSquare has an end for
        unclaimed matches only.
        """
        constants = self._contracts.constants
        views = [constants.claim_timeout_blocks()]
        if self._contracts.has_batches:
            views += [constants.start_timeout_s(), constants.settle_grace_s()]
        claim_blocks, *ours = ask(self._node, views, at_block=at_block)
        start_s, settle_grace_s = ours or (None, None)
        return Timeouts(claim_blocks=claim_blocks, start_s=start_s, settle_grace_s=settle_grace_s)

    def _provider_records(
        self, addresses: Sequence[str], at_block: Block
    ) -> list[tuple[Provider | None, Provider | None]]:
        manager = self._contracts.providers
        records = ask(
            self._node,
            [view(a) for a in addresses for view in (manager.active, manager.waiting)],
            at_block=at_block,
        )
        kinds = (manager.is_valid_for_scheduling, manager.is_waiting, manager.is_banned)
        flags = ask(self._node, [view(a) for a in addresses for view in kinds], at_block=at_block)
        found = []
        for place in range(len(addresses)):
            active, waiting = records[2 * place : 2 * place + 2]
            joined, waits, banned = flags[3 * place : 3 * place + 3]
            requested = (
                waiting.to_provider(joined=False, waiting=True, banned=banned) if waits else None
            )
            found.append(
                (active.to_provider(joined=joined, waiting=waits, banned=banned), requested)
            )
        return found

    def _jobs_by_page(self, numbers: Sequence[int], at_block: Block) -> list[Job]:
        """Return jobs of our contracts, many with one call."""
        repository = self._contracts.jobs
        pages = [
            numbers[start : start + JOBS_PER_READ]
            for start in range(0, len(numbers), JOBS_PER_READ)
        ]
        records, prices = (
            [repository.get_many(p) for p in pages],
            [repository.prices_of_many(p) for p in pages],
        )
        answers = self._node.read(
            [one.read for one in records] + [one.read for one in prices], at_block=at_block
        )
        found: list[Job] = []
        for place, page in enumerate(pages):
            told, priced = answers[place], answers[len(pages) + place]
            if isinstance(told, RpcError) or isinstance(priced, RpcError):
                found += self._jobs_one_by_one(page, at_block)  # one of them does not exist
                continue
            both = zip(records[place].value(told), prices[place].value(priced), strict=True)
            found += [self._job(record, price) for record, price in both]
        return found

    def _jobs_one_by_one(self, numbers: Sequence[int], at_block: Block) -> list[Job]:
        views = [self._contracts.jobs.get(number) for number in numbers]
        records = self._known(
            views, self._node.read([view.read for view in views], at_block=at_block)
        )
        return [
            self._job(r, price)
            for r, price in zip(records, self._prices(records, at_block), strict=True)
        ]

    def _known(
        self, views: Sequence[ViewCall[ChainJobRecord]], answers: Sequence[bytes | RpcError]
    ) -> list[ChainJobRecord]:
        found = []
        for view, answer in zip(views, answers, strict=True):
            if isinstance(answer, bytes):
                found.append(view.value(answer))
                continue
            error = reverted(view.function, answer)
            if error.error_name != "InvalidJob":
                raise ChainUnavailable("could not read a job", detail=str(error))
        return found

    def _prices(self, records: Sequence[ChainJobRecord], at_block: Block) -> list[int]:
        """Return what a minute of jobs costs; plain DeepSquare does not fix it at the match, so it
        is today's there.
        """
        if self._contracts.has_batches:
            return ask(
                self._node,
                [self._contracts.jobs.price_per_minute(one.number) for one in records],
                at_block=at_block,
            )
        providers = self.providers(
            {one.provider for one in records if one.provider}, at_block=at_block
        )
        return [_price_now(one, providers.get(one.provider)) for one in records]

    def _job(self, record: ChainJobRecord, price: int) -> Job:
        grid = self._contracts
        return record.to_job(
            chain_id=grid.chain_id, contract=grid.meta_scheduler.address, price_per_min=price
        )


def _price_now(job: ChainJobRecord, provider: Provider | None) -> int:
    """Return what a minute of the job costs at its provider's prices.

    The prices of one that was removed are gone. Then no minute is known to be paid: the job gets no
    more time for it, where a price of 0 would give it any.
    """
    if not job.provider:
        return 0
    if provider is not None:
        return price_per_minute(job.resources, provider.prices)
    return 0 if job.state in COLD else job.escrow + 1
