# SPDX-License-Identifier: Apache-2.0
"""Groups calls into transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gridstead.domain.jobs.ids import JobKey
from gridstead.domain.transactions.calls import Call, Expire, subject
from gridstead.domain.transactions.outbox import OutboxEntry, Refusal


def pack(
    entries: Iterable[OutboxEntry],
    *,
    most: int,
    gas_limit: int,
    gas: Mapping[int, int],
    refusals: Mapping[int, Refusal],
) -> Iterator[tuple[int, ...]]:
    """Yield the ids of the entries whose calls share a transaction.

    Shape: a batch has calls of one kind, at most one call per job and at most ``most`` calls. After
    a refusal it has at most half as many calls as the refused transaction. The gas of its calls is
    within ``gas_limit``. The calls of one job keep their order across the batches.
    """
    packer = _Packer(gas_limit=gas_limit)
    for entry in entries:
        limit = _max_calls(entry, most, refusals.get(entry.id))
        packer.add(entry, limit, gas.get(entry.id, 0))
    for batch in packer.batches:
        yield tuple(batch.entry_ids)


def _max_calls(entry: OutboxEntry, most: int, refusal: Refusal | None) -> int:
    """Return how many calls a batch with this entry may have."""
    if isinstance(entry.call, Expire):
        return 1  # The contracts have no batch of such calls.
    if refusal is None:
        return most
    return max(1, min(most, refusal.calls // 2))


@dataclass(slots=True)
class _Batch:
    """Calls that share a transaction.

    Attributes:
        position: The index of this batch among all batches.
        room: How many calls it still accepts.
        gas: The gas that its calls may still use.
        entry_ids: The entries of its calls.
    """

    position: int
    room: int
    gas: int
    entry_ids: list[int] = field(default_factory=list)

    def accepts(self, limit: int, gas: int) -> bool:
        return len(self.entry_ids) < limit and gas <= self.gas

    def add(self, entry_id: int, limit: int, gas: int) -> None:
        self.room = min(self.room, limit - len(self.entry_ids)) - 1
        self.gas -= gas
        self.entry_ids.append(entry_id)


@dataclass(slots=True)
class _Packer:
    """Adds calls to batches.

    Attributes:
        gas_limit: The gas that the calls of one batch may use.
        batches: All batches, in the order in which they must be sent.
        open_batches: The batches that still have room, by kind of call, oldest first.
        last_position: The position of the newest batch with a call of a job, by job key.
    """

    gas_limit: int
    batches: list[_Batch] = field(default_factory=list)
    open_batches: dict[type[Call], list[_Batch]] = field(default_factory=lambda: defaultdict(list))
    last_position: dict[JobKey, int] = field(default_factory=dict)

    def add(self, entry: OutboxEntry, limit: int, gas: int) -> None:
        job_key = subject(entry.call)
        if job_key is None:
            self._new_batch(limit).add(entry.id, limit, gas)
            return
        candidates = self.open_batches[type(entry.call)]
        batch = self._newest_with_room(candidates, job_key, limit, gas)
        if batch is None:
            batch = self._new_batch(limit)
            candidates.append(batch)
        batch.add(entry.id, limit, gas)
        self.last_position[job_key] = batch.position
        if batch.room < 1 or batch.gas < gas:
            candidates.remove(batch)

    def _new_batch(self, limit: int) -> _Batch:
        batch = _Batch(position=len(self.batches), room=limit, gas=self.gas_limit)
        self.batches.append(batch)
        return batch

    def _newest_with_room(
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
