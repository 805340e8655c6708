# SPDX-License-Identifier: Apache-2.0
"""Groups the calls of an outbox into batches. Each batch becomes one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.transactions.calls import Call, Expire, job_key_of
from gridstead.domain.transactions.outbox import OutboxEntry, Refusal


def pack(
    entries: Iterable[OutboxEntry],
    *,
    max_calls: int,
    gas_limit: int,
    gas: Mapping[int, int],
    refusals: Mapping[int, Refusal],
) -> Iterator[tuple[int, ...]]:
    """Yield the batches as tuples of entry ids, in the order in which they must be sent.

    A batch has calls of one type and at most one call per job. Its calls use at most ``gas_limit``.
    The calls of one job keep their order across the batches.

    Args:
        entries: The queued entries, oldest first.
        max_calls: The highest number of calls in a batch. After a refusal, a batch has at most half
            as many calls as the refused transaction.
        gas_limit: The gas that the calls of one batch may use.
        gas: The maximum gas of a call, by entry id.
        refusals: The last refusal of a transaction with the call, by entry id.
    """
    packer = _Packer(gas_limit=gas_limit)
    for entry in entries:
        limit = _max_batch_size(entry, max_calls, refusals.get(entry.id))
        packer.add(entry, limit, gas.get(entry.id, 0))
    for batch in packer.batches:
        yield tuple(batch.entry_ids)


def _max_batch_size(entry: OutboxEntry, max_calls: int, refusal: Refusal | None) -> int:
    """Return how many calls a batch with this entry may have."""
    if isinstance(entry.call, Expire):
        return 1  # The contracts have no batch of such calls.
    if refusal is None:
        return max_calls
    half = refusal.call_count // 2
    return max(1, min(max_calls, half))


@dataclass(slots=True)
class _Batch:
    """Calls that share a transaction.

    Attributes:
        position: The index of this batch among all batches.
        remaining_calls: How many more calls the batch accepts.
        remaining_gas: The gas that further calls may use.
        entry_ids: The entries of its calls.
    """

    position: int
    remaining_calls: int
    remaining_gas: int
    entry_ids: list[int] = field(default_factory=list)

    def accepts(self, limit: int, gas: int) -> bool:
        """Return whether a call fits that uses ``gas`` and allows ``limit`` calls in its batch."""
        return len(self.entry_ids) < limit and gas <= self.remaining_gas

    def add(self, entry_id: int, limit: int, gas: int) -> None:
        self.entry_ids.append(entry_id)
        allowed_calls = limit - len(self.entry_ids)
        self.remaining_calls = min(self.remaining_calls - 1, allowed_calls)
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

    def add(self, entry: OutboxEntry, limit: int, gas: int) -> None:
        job_key = job_key_of(entry.call)
        if job_key is None:
            self._new_batch(limit).add(entry.id, limit, gas)
            return
        candidates = self.open_batches[type(entry.call)]
        batch = self._newest_that_accepts(candidates, job_key, limit, gas)
        if batch is None:
            batch = self._new_batch(limit)
            candidates.append(batch)
        batch.add(entry.id, limit, gas)
        self.last_position[job_key] = batch.position
        if batch.remaining_calls < 1 or batch.remaining_gas < gas:
            candidates.remove(batch)

    def _new_batch(self, limit: int) -> _Batch:
        batch = _Batch(
            position=len(self.batches), remaining_calls=limit, remaining_gas=self.gas_limit
        )
        self.batches.append(batch)
        return batch

    def _newest_that_accepts(
        self, candidates: list[_Batch], job_key: JobKey, limit: int, gas: int
    ) -> _Batch | None:
        """Return the newest batch that accepts a call and is after the job's previous call."""
        previous = self.last_position.get(job_key, -1)
        for batch in reversed(candidates):
            if batch.position <= previous:
                return None
            if batch.accepts(limit, gas):
                return batch
        return None
