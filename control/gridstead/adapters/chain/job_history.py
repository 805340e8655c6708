# SPDX-License-Identifier: Apache-2.0
"""What happened to a job, from the contracts' events.

Our contracts have events that can be searched by job. Those of plain DeepSquare cannot: there all
changes of state of all jobs are read and ours picked out, and told under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.abi import EventType, artifact
from gridstead.adapters.chain.contract import ask, job_id
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.logs import Log, read_logs
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.domain.lifecycle import COLD, JobState
from gridstead.errors import ChainUnavailable

_OURS = (
    "JobRequested",
    "JobMatched",
    "JobUnmatched",
    "JobClaimed",
    "JobStarted",
    "JobCancelRequested",
    "JobToppedUp",
    "JobSettled",
    "JobRefunded",
)
_ENTERED = {
    JobState.PENDING: "JobUnmatched",
    JobState.META_SCHEDULED: "JobMatched",
    JobState.SCHEDULED: "JobClaimed",
    JobState.RUNNING: "JobStarted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """Something that happened to a job, as its event tells.

    Attributes:
        event: Name of the contracts' event: JobRequested, JobMatched, JobUnmatched, JobClaimed,
            JobStarted, JobCancelRequested, JobToppedUp, JobSettled or JobRefunded.
        block: Height.
        at: The block's time, Unix seconds.
        numbers: Its numbers by name: locked, pricePerMinute, startTime, status, cost, fee,
            billedSeconds, amount. Of these plain DeepSquare tells startTime, status, cost and
            amount.
        evidence: Of a settlement, the hash of the accounting record behind it, 0x and 64
            hexadecimal digits.
    """

    event: str
    block: int
    occurred_at: int
    numbers: Mapping[str, int]
    evidence: str = ""


def read_job_history(
    node: Node, contracts: Contracts, number: int, *, first: int
) -> tuple[HistoryEvent, ...]:
    """Return what happened to a job since a block, oldest first."""
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    if contracts.has_batches:
        events = {
            e.topic: e for name, e in artifact("MetaScheduler").events.items() if name in _OURS
        }
        wanted = {
            "address": contracts.meta_scheduler.address,
            "topics": [sorted(events), f"0x{number:064x}"],
        }
        logs = read_logs(node, wanted, first=first, end=head)
        times = _times(node, logs)
        return tuple(_told(events[log["topics"][0]], log, times) for log in logs)
    requested = artifact("MetaScheduler").events["NewJobRequestEvent"]
    moved = artifact("JobRepository").events["JobTransitionEvent"]
    addresses = [contracts.meta_scheduler.address, contracts.jobs.address]
    wanted = {"address": addresses, "topics": [[requested.topic, moved.topic]]}
    found = [
        log
        for log in read_logs(node, wanted, first=first, end=head)
        if log["data"][2:66] == job_id(number).hex()
    ]
    (record,) = ask(node, [contracts.jobs.get(number)], at_block=head)
    return tuple(
        _concluded(moved, found, _times(node, found), escrow=record.escrow, cost=record.final_cost)
    )


def _told(event: EventType, log: Log, times: Mapping[str, int]) -> HistoryEvent:
    fields = event.decode(log)
    numbers = {name: value for name, value in fields.items() if isinstance(value, int)}
    evidence = f"0x{fields['evidence'].hex()}" if "evidence" in fields else ""
    return _history_event(event.name, log, times, numbers, evidence=evidence)


def _concluded(
    moved: EventType, logs: Iterable[Log], times: Mapping[str, int], *, escrow: int, cost: int
) -> Iterator[HistoryEvent]:
    """Yield what changes of state say under the names of our events; a job ends once, so its record
    has the cost.
    """
    for log in logs:
        if log["topics"][0] != moved.topic:
            yield _history_event("JobRequested", log, times, {})
            continue
        fields = moved.decode(log)
        before, after = JobState(fields["_from"]), JobState(fields["_to"])
        if after not in COLD:
            numbers = {"startTime": times[log["blockNumber"]]} if after is JobState.RUNNING else {}
            yield _history_event(_ENTERED[after], log, times, numbers)
        elif before is JobState.RUNNING and cost:
            yield _history_event("JobSettled", log, times, {"status": after, "cost": cost})
        else:
            yield _history_event("JobRefunded", log, times, {"status": after, "amount": escrow})


def _history_event(
    event: str,
    log: Log,
    times: Mapping[str, int],
    numbers: Mapping[str, int],
    *,
    evidence: str = "",
) -> HistoryEvent:
    height = log["blockNumber"]
    return HistoryEvent(
        event=event,
        block=int(height, 16),
        occurred_at=times[height],
        numbers=numbers,
        evidence=evidence,
    )


def _times(node: Node, logs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    heights = sorted({log["blockNumber"] for log in logs})
    answers = node.batch([("eth_getBlockByNumber", [height, False]) for height in heights])
    times = {}
    for height, answer in zip(heights, answers, strict=True):
        if isinstance(answer, RpcError) or answer is None:
            raise ChainUnavailable(f"could not read block {height}", detail=str(answer))
        times[height] = to_block(answer).timestamp
    return times
