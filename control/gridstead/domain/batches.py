# SPDX-License-Identifier: Apache-2.0
"""Which calls go to the chain in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gridstead.domain.calls import Call, ClaimCancelling, ClaimJobs, ClaimTopUp, Expire, Register
from gridstead.domain.ids import JobKey
from gridstead.domain.sending import OutboxEntry, Refusal


def subject(call: Call) -> JobKey | None:
    """Return the job key of the job that a call names, None if it names none."""
    if isinstance(call, Register | ClaimJobs | ClaimCancelling | ClaimTopUp):
        return None
    return call.job_key


@dataclass(slots=True)
class _Batch:
    """Calls that go into one transaction, and the room that is left."""

    place: int
    room: int
    gas: int
    entry_ids: list[int] = field(default_factory=list)

    def takes(self, most: int, gas: int) -> bool:
        return len(self.entry_ids) < most and gas <= self.gas

    def add(self, entry_id: int, most: int, gas: int) -> None:
        self.room = min(self.room, most - len(self.entry_ids)) - 1
        self.gas -= gas
        self.entry_ids.append(entry_id)


def pack(
    entries: Iterable[OutboxEntry],
    *,
    most: int,
    gas_limit: int,
    gas: Mapping[int, int],
    refusals: Mapping[int, Refusal],
) -> Iterator[tuple[int, ...]]:
    """Yield the ids of calls that go into one transaction together.

    Shape: calls of one kind, at most one per job, at most ``most``, at most half as many as in a
    transaction with one of them that was refused, together within ``gas_limit``. Calls of one job
    keep their order across batches.
    """
    batches: list[_Batch] = []
    open_batches: dict[type[Call], list[_Batch]] = defaultdict(
        list
    )  # those with room, oldest first
    last: dict[JobKey, int] = {}  # the place of the newest batch with a call of that job
    for entry in entries:
        job_key, kind, used = subject(entry.call), type(entry.call), gas.get(entry.id, 0)
        refusal = refusals.get(entry.id)
        limit = most if refusal is None else max(1, min(most, refusal.calls // 2))
        if kind is Expire:
            limit = 1  # the contracts have no batch of them
        home = None
        if job_key is not None:
            after = last.get(job_key, -1)
            candidates = (one for one in reversed(open_batches[kind]) if one.takes(limit, used))
            home = next((one for one in candidates if one.place > after), None)
        if home is None:
            home = _Batch(place=len(batches), room=limit, gas=gas_limit)
            batches.append(home)
            if job_key is not None:
                open_batches[kind].append(home)
        home.add(entry.id, limit, used)
        if job_key is not None:
            last[job_key] = home.place
            if home.room < 1 or home.gas < used:
                open_batches[kind].remove(home)
    for batch in batches:
        yield tuple(batch.entry_ids)
