# SPDX-License-Identifier: Apache-2.0
"""Groups the calls of an outbox into batches. Each batch becomes one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.transactions.calls import Call, Expire, job_key_of
from gridstead.domain.transactions.outbox import NodeRefusal, OutboxEntry


def pack_batches(
    entries: Iterable[OutboxEntry],
    *,
    max_calls: int,
    gas_limit: int,
    max_gas: Mapping[int, int],
    refusals: Mapping[int, NodeRefusal],
) -> Iterator[tuple[int, ...]]:
    """Yield the batches as tuples of entry ids, in the order in which they must be sent.

    The calls of a batch have one type, concern different jobs, and use at most ``gas_limit``.
    A call that needs more gas than this limit gets a batch of its own. The calls of one job keep
    their order across the batches.

    Args:
        entries: The queued entries, oldest first.
        max_calls: The highest number of calls in a batch. A batch with a call of a refused
            transaction has at most half as many calls as this transaction.
        gas_limit: The gas that the calls of one batch may use.
        max_gas: The maximum gas of a call, by entry id.
        refusals: By entry id, the last refusal of a transaction that contained the entry's call.
    """
    packer = _Packer(gas_limit=gas_limit)
    for entry in entries:
        max_size = _max_batch_size(entry, max_calls, refusals.get(entry.id))
        packer.add(entry, max_size, max_gas.get(entry.id, 0))
    for batch in packer.batches:
        yield tuple(batch.entry_ids)


def _max_batch_size(entry: OutboxEntry, max_calls: int, refusal: NodeRefusal | None) -> int:
    """Return how many calls a batch with this entry may have."""
    if isinstance(entry.call, Expire):
        return 1  # The contracts have no function for a batch of such calls.
    if refusal is None:
        return max_calls
    half_of_refused_calls = refusal.call_count // 2
    return max(1, min(max_calls, half_of_refused_calls))


@dataclass(slots=True)
class _Batch:
    """Calls that share a transaction.

    Attributes:
        position: The index of this batch among all batches.
        max_size: How many calls the batch may have.
        remaining_gas: The gas that further calls may use.
        entry_ids: The ids of the entries whose calls are in the batch.
    """

    position: int
    max_size: int
    remaining_gas: int
    entry_ids: list[int] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the batch has as many calls as it may have."""
        return len(self.entry_ids) >= self.max_size

    def accepts(self, max_size: int, gas: int) -> bool:
        """Return whether this batch has room for a call. The batch must not be full.

        Args:
            max_size: How many calls a batch with this call may have.
            gas: The gas that the call uses.
        """
        return len(self.entry_ids) < max_size and gas <= self.remaining_gas

    def add(self, entry_id: int, max_size: int, gas: int) -> None:
        self.entry_ids.append(entry_id)
        self.max_size = min(self.max_size, max_size)
        self.remaining_gas -= gas


@dataclass(slots=True)
class _Packer:
    """Adds calls to batches.

    Attributes:
        gas_limit: The gas that the calls of one batch may use.
        batches: All batches, in the order in which they must be sent.
        open_batches: The batches that accept further calls, by type of call, oldest first.
        last_position: The position of the newest batch with a call of a job, by job key.
    """

    gas_limit: int
    batches: list[_Batch] = field(default_factory=list)
    open_batches: dict[type[Call], list[_Batch]] = field(default_factory=lambda: defaultdict(list))
    last_position: dict[JobKey, int] = field(default_factory=dict)

    def add(self, entry: OutboxEntry, max_size: int, gas: int) -> None:
        job_key = job_key_of(entry.call)
        if job_key is None:
            # A call that is not about one job gets a batch of its own.
            self._new_batch(max_size).add(entry.id, max_size, gas)
            return
        candidates = self.open_batches[type(entry.call)]
        batch = self._newest_accepting_batch(candidates, job_key, max_size, gas)
        if batch is None:
            batch = self._new_batch(max_size)
            candidates.append(batch)
        batch.add(entry.id, max_size, gas)
        self.last_position[job_key] = batch.position
        # Calls of one type use similar amounts of gas. If another call with this gas does not fit,
        # the batch is complete.
        if batch.is_full or batch.remaining_gas < gas:
            candidates.remove(batch)

    def _new_batch(self, max_size: int) -> _Batch:
        batch = _Batch(position=len(self.batches), max_size=max_size, remaining_gas=self.gas_limit)
        self.batches.append(batch)
        return batch

    def _newest_accepting_batch(
        self, candidates: list[_Batch], job_key: JobKey, max_size: int, gas: int
    ) -> _Batch | None:
        """Return the newest batch that accepts a call and comes after the job's previous call."""
        previous_position = self.last_position.get(job_key, -1)
        for batch in reversed(candidates):
            if batch.position <= previous_position:
                return None
            if batch.accepts(max_size, gas):
                return batch
        return None
