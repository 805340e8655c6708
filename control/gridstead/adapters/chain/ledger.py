# SPDX-License-Identifier: Apache-2.0
"""Reads jobs, providers, queues and events from the grid's contracts.

A grid has either Gridstead's contracts ("our contracts") or the contracts of DeepSquare 1.2 ("plain
DeepSquare"), from which ours are derived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from gridstead.adapters.chain.abi import reverted
from gridstead.adapters.chain.contract import ViewCall, ask
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.events import EventReader
from gridstead.adapters.chain.logs import read_logs
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.adapters.chain.records import ChainJobRecord, ChainJobTerms
from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.jobs.billing import price_per_minute
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job, Provider, QueueSizes
from gridstead.domain.jobs.lifecycle import COLD
from gridstead.domain.matching.expiry import Timeouts
from gridstead.errors import ChainUnavailable

JOBS_PER_READ = 25


class ChainLedger:
    """Implements port ``Ledger`` with the contracts of a grid.

    Args:
        node: A node of the chain.
        contracts: The contracts of the grid.
        claims_of: Empty to read all events. The address of a provider to read only the claims of
            this provider. On plain DeepSquare, the claims of all providers are read instead.
        with_transfers: Whether to read the transfers of credits too.
    """

    def __init__(
        self,
        node: Node,
        contracts: Contracts,
        *,
        claims_of: str = "",
        with_transfers: bool = False,
    ) -> None:
        self._node = node
        self._contracts = contracts
        self._events = EventReader(contracts, claims_of=claims_of, with_transfers=with_transfers)
        # The hash of a block, and the jobs at this block.
        self._cache: tuple[str, dict[JobId, Job]] = ("", {})

    @property
    def has_all_change_events(self) -> bool:
        """Whether each change of a job or of an approved provider emits an event."""
        return self._contracts.has_all_change_events

    def head(self) -> Block:
        """Return the newest block."""
        return to_block(self._node.ask("eth_getBlockByNumber", "latest", False))

    def block(self, number: int) -> Block | None:
        """Return the block at a height."""
        answer = self._node.ask("eth_getBlockByNumber", hex(number), False)
        return to_block(answer) if answer else None

    def jobs(self, job_ids: Iterable[JobId], *, at_block: Block) -> dict[JobId, Job]:
        """Return jobs by id; unknown jobs and jobs of other grids are left out.

        The jobs at a block never change, so the jobs of the last block are cached.
        """
        possible_ids = filter(self._is_possible, job_ids)
        requested_ids = sorted(set(possible_ids))
        cached_hash, cached_jobs = self._cache
        jobs = dict(cached_jobs) if cached_hash == at_block.hash else {}
        missing_numbers = [job_id.number for job_id in requested_ids if job_id not in jobs]
        if missing_numbers:
            has_terms = self._contracts.has_terms
            read_jobs = self._jobs_by_page if has_terms else self._jobs_one_by_one
            for job in read_jobs(missing_numbers, at_block):
                jobs[job.id] = job
            self._cache = (at_block.hash, jobs)
        return {job_id: jobs[job_id] for job_id in requested_ids if job_id in jobs}

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        """Return the grid's events."""
        logs = read_logs(self._node, self._events.filter(), first=first, end=end)
        events = map(self._events.read, logs)
        return tuple(event for event in events if event is not None)

    def queue_sizes(self, provider: str, *, at_block: Block) -> QueueSizes:
        """Return the sizes of a provider's queues."""
        queues = self._contracts.queues
        views = [queues.claimable(provider), queues.cancelling(provider), queues.top_up(provider)]
        if self._contracts.has_batches:
            claimable, cancelling, top_up = ask(self._node, views, at_block=at_block)
        else:
            # On plain DeepSquare, a claim reverts if all entries of the queue are stale. The size
            # is then set to 0, so that the claim is not repeated forever.
            views.append(queues.has_claimable(provider))
            claimable, cancelling, top_up, has_claimable = ask(self._node, views, at_block=at_block)
            if not has_claimable:
                claimable = 0
        return QueueSizes(claimable=claimable, cancelling=cancelling, top_up=top_up)

    def claimable_jobs(self, provider: str, *, limit: int, at_block: Block) -> tuple[Job, ...]:
        """Return the first matched jobs of a provider. Plain DeepSquare does not list them."""
        if not self._contracts.has_batches:
            return ()
        view = self._contracts.queues.next_claimable(provider, limit=limit)
        (numbers,) = ask(self._node, [view], at_block=at_block)
        job_ids = [self._contracts.job_id(number) for number in numbers]
        jobs = self.jobs(job_ids, at_block=at_block)
        return tuple(jobs[job_id] for job_id in job_ids)

    def providers(self, addresses: Iterable[str], *, at_block: Block) -> dict[str, Provider]:
        """Return providers by address.

        If a provider has no approved record, its record that waits for approval is returned.
        """
        requested_addresses = sorted(set(addresses))
        records = self._provider_records(requested_addresses, at_block)
        providers: dict[str, Provider] = {}
        for address, (active_provider, waiting_provider) in zip(
            requested_addresses, records, strict=True
        ):
            provider = active_provider or waiting_provider
            if provider is not None:
                providers[address] = provider
        return providers

    def approved_providers(
        self, addresses: Iterable[str], *, at_block: Block
    ) -> dict[str, Provider]:
        """Return the approved records by address. Two views are read for each address."""
        requested_addresses = sorted(set(addresses))
        manager = self._contracts.providers
        record_views = list(map(manager.active, requested_addresses))
        records = ask(self._node, record_views, at_block=at_block)
        flag_views = list(map(manager.is_valid_for_scheduling, requested_addresses))
        flags = ask(self._node, flag_views, at_block=at_block)
        providers: dict[str, Provider] = {}
        for address, record, is_joined in zip(requested_addresses, records, flags, strict=True):
            provider = record.to_provider(is_joined=is_joined, is_waiting=False, is_banned=False)
            if provider is not None:
                providers[address] = provider
        return providers

    def waiting_provider(self, address: str, *, at_block: Block) -> Provider | None:
        """Return the record of a provider that waits for approval."""
        ((_, waiting_record),) = self._provider_records([address], at_block)
        return waiting_record

    def timeouts(self, *, at_block: Block) -> Timeouts:
        """Return how long the grid waits for a provider's steps.

        Plain DeepSquare has only a claim timeout.
        """
        constants = self._contracts.constants
        views = [constants.claim_timeout_blocks()]
        if not self._contracts.has_batches:
            (claim_blocks,) = ask(self._node, views, at_block=at_block)
            return Timeouts(claim_blocks=claim_blocks, start_s=None, settle_grace_s=None)
        views += [constants.start_timeout_s(), constants.settle_grace_s()]
        claim_blocks, start_s, settle_grace_s = ask(self._node, views, at_block=at_block)
        return Timeouts(claim_blocks=claim_blocks, start_s=start_s, settle_grace_s=settle_grace_s)

    def _is_possible(self, job_id: JobId) -> bool:
        """Return whether the grid may have a job with this id."""
        return 0 < job_id.number < 1 << 256 and job_id == self._contracts.job_id(job_id.number)

    def _provider_records(
        self, addresses: Sequence[str], at_block: Block
    ) -> list[tuple[Provider | None, Provider | None]]:
        """Return the approved and the waiting record of each address. A missing record is None."""
        manager = self._contracts.providers
        count = len(addresses)
        record_views = [*map(manager.active, addresses), *map(manager.waiting, addresses)]
        records = ask(self._node, record_views, at_block=at_block)
        flag_views = [
            *map(manager.is_valid_for_scheduling, addresses),
            *map(manager.is_waiting, addresses),
            *map(manager.is_banned, addresses),
        ]
        flags = ask(self._node, flag_views, at_block=at_block)
        providers = []
        # Each list has the results of one view for all addresses, then those of the next view.
        # Therefore, every ``count``-th result belongs to the same address.
        for index in range(count):
            is_joined, is_waiting, is_banned = flags[index::count]
            active_record, waiting_record = records[index::count]
            approved_provider = active_record.to_provider(
                is_joined=is_joined, is_waiting=is_waiting, is_banned=is_banned
            )
            unapproved_provider = None
            if is_waiting:
                unapproved_provider = waiting_record.to_provider(
                    is_joined=False, is_waiting=True, is_banned=is_banned
                )
            providers.append((approved_provider, unapproved_provider))
        return providers

    def _jobs_by_page(self, numbers: Sequence[int], at_block: Block) -> list[Job]:
        """Return jobs of our contracts. One call reads up to ``JOBS_PER_READ`` jobs."""
        repository = self._contracts.jobs
        starts = range(0, len(numbers), JOBS_PER_READ)
        pages = [numbers[start : start + JOBS_PER_READ] for start in starts]
        record_views = list(map(repository.get_many, pages))
        terms_views = list(map(repository.terms_of_many, pages))
        has_limits = self._contracts.has_cancel_requests
        limits_views = list(map(repository.bill_until_of_many, pages)) if has_limits else []
        views: list[ViewCall[Any]] = [*record_views, *terms_views, *limits_views]
        answers = self._node.read([view.read for view in views], at_block=at_block)
        jobs: list[Job] = []
        for index, page in enumerate(pages):
            page_answers = answers[index :: len(pages)]  # the answer of each view for this page
            data = [answer for answer in page_answers if isinstance(answer, bytes)]
            if len(data) < len(page_answers):
                jobs += self._jobs_one_by_one(page, at_block)  # a job of the page does not exist
                continue
            records = record_views[index].value(data[0])
            terms = terms_views[index].value(data[1])
            limits = limits_views[index].value(data[2]) if has_limits else repeat(None)
            jobs += map(self._to_job, records, terms, limits)
        return jobs

    def _jobs_one_by_one(self, numbers: Sequence[int], at_block: Block) -> list[Job]:
        views = list(map(self._contracts.jobs.get, numbers))
        answers = self._node.read([view.read for view in views], at_block=at_block)
        records = self._existing_records(views, answers)
        terms = self._terms(records, at_block)
        limits = self._bill_limits(records, at_block)
        jobs = []
        for record, record_terms in zip(records, terms, strict=True):
            jobs.append(self._to_job(record, record_terms, limits.get(record.number)))
        return jobs

    def _existing_records(
        self, views: Sequence[ViewCall[ChainJobRecord]], answers: Sequence[bytes | RpcError]
    ) -> list[ChainJobRecord]:
        """Return the records of the jobs that exist."""
        records = []
        for view, answer in zip(views, answers, strict=True):
            if isinstance(answer, bytes):
                records.append(view.value(answer))
                continue
            error = reverted(view.function, answer)
            if error.error_name != "InvalidJob":
                raise ChainUnavailable("could not read a job", detail=str(error))
        return records

    def _terms(self, records: Sequence[ChainJobRecord], at_block: Block) -> list[ChainJobTerms]:
        """Return the terms of jobs.

        Plain DeepSquare has no terms, because the match does not fix a price. The terms that are
        returned have the provider's current price.
        """
        if self._contracts.has_terms:
            terms_of = self._contracts.jobs.terms
            views = [terms_of(record.number) for record in records]
            return ask(self._node, views, at_block=at_block)
        addresses = {record.provider for record in records} - {""}
        providers = self.approved_providers(addresses, at_block=at_block)
        return [_plain_terms(record, providers.get(record.provider)) for record in records]

    def _bill_limits(
        self, records: Sequence[ChainJobRecord], at_block: Block
    ) -> dict[int, int | None]:
        """Return the times up to which the jobs with a request to cancel are billed, by number."""
        numbers = [record.number for record in records if record.has_open_request]
        if not numbers or not self._contracts.has_cancel_requests:
            return {}
        view = self._contracts.jobs.bill_until_of_many(numbers)
        (limits,) = ask(self._node, [view], at_block=at_block)
        return dict(zip(numbers, limits, strict=True))

    def _to_job(
        self, record: ChainJobRecord, terms: ChainJobTerms, bill_until: int | None = None
    ) -> Job:
        return record.to_job(self._contracts.job_id(record.number), terms, bill_until)


def _plain_terms(record: ChainJobRecord, provider: Provider | None) -> ChainJobTerms:
    price = _current_price(record, provider)
    return ChainJobTerms(price_per_min=price, started_at=record.apparent_start)


def _current_price(record: ChainJobRecord, provider: Provider | None) -> int:
    """Return the price per minute of a job at its provider's current prices, wei.

    The prices of a removed provider are unknown. For an unsettled job of this provider, the
    returned price is higher than the escrow, so that the escrow pays for no time. The price is not
    0, because the escrow would then pay for an unlimited time.
    """
    if not record.provider:
        return 0
    if provider is not None:
        return price_per_minute(record.resources, provider.prices)
    return 0 if record.state in COLD else record.escrow + 1
