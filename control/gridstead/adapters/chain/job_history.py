# SPDX-License-Identifier: Apache-2.0
"""Reads the history of a job from the contracts' events.

The events of Gridstead's contracts ("our contracts") are indexed by job. The events of the
contracts of DeepSquare 1.2 ("plain DeepSquare"), from which ours are derived, have no such index.
On plain DeepSquare, therefore, the state changes of all jobs are read and filtered, and are
returned with the names of our events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridstead.adapters.chain.abi import EventType, artifact
from gridstead.adapters.chain.contract import ask, to_bytes32
from gridstead.adapters.chain.contracts import Contracts
from gridstead.adapters.chain.logs import Log, read_logs
from gridstead.adapters.chain.node import Node, RpcError, to_block
from gridstead.domain.jobs.job import Block
from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.errors import ChainUnavailable

_HISTORY_EVENTS = (
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
# The event that our contracts emit when a job enters a hot (unsettled) state.
_EVENTS_BY_STATE = {
    JobState.PENDING: "JobUnmatched",
    JobState.META_SCHEDULED: "JobMatched",
    JobState.SCHEDULED: "JobClaimed",
    JobState.RUNNING: "JobStarted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """An event of a job.

    Attributes:
        event: Name of the contracts' event: JobRequested, JobMatched, JobUnmatched, JobClaimed,
            JobStarted, JobCancelRequested, JobToppedUp, JobSettled or JobRefunded.
        block: The block's height.
        occurred_at: The block's time, Unix seconds.
        numbers: The event's numbers by name: locked, pricePerMinute, startTime, status, cost, fee,
            billedSeconds, amount. On plain DeepSquare only startTime, status, cost and amount.
        evidence: For a settlement, the hash of the accounting record that determined the bill, as
            0x and 64 hexadecimal digits. Empty for other events.
    """

    event: str
    block: int
    occurred_at: int
    numbers: Mapping[str, int]
    evidence: str = ""


def read_job_history(
    node: Node, contracts: Contracts, job_number: int, *, first_block: int
) -> tuple[HistoryEvent, ...]:
    """Return the events of a job from block ``first_block`` on, oldest first."""
    head = to_block(node.ask("eth_getBlockByNumber", "latest", False))
    if contracts.has_batches:
        return tuple(
            _read_own_history(node, contracts, job_number, first_block=first_block, head=head)
        )
    return tuple(
        _read_plain_history(node, contracts, job_number, first_block=first_block, head=head)
    )


def _read_own_history(
    node: Node, contracts: Contracts, job_number: int, *, first_block: int, head: Block
) -> Iterator[HistoryEvent]:
    """Yield the events of a job from our contracts."""
    event_types = artifact("MetaScheduler").events
    types_by_topic = {event_types[name].topic: event_types[name] for name in _HISTORY_EVENTS}
    address = contracts.meta_scheduler.address
    log_filter = {"address": address, "topics": [sorted(types_by_topic), f"0x{job_number:064x}"]}
    logs = read_logs(node, log_filter, first=first_block, end=head)
    times = _block_times(node, logs)
    for log in logs:
        event_type = types_by_topic[log["topics"][0]]
        yield _decode(event_type, log, times)


def _read_plain_history(
    node: Node, contracts: Contracts, job_number: int, *, first_block: int, head: Block
) -> Iterator[HistoryEvent]:
    """Yield the events of a job from the contracts of plain DeepSquare."""
    request_event = artifact("MetaScheduler").events["NewJobRequestEvent"]
    transition_event = artifact("JobRepository").events["JobTransitionEvent"]
    addresses = [contracts.meta_scheduler.address, contracts.jobs.address]
    log_filter = {"address": addresses, "topics": [[request_event.topic, transition_event.topic]]}
    job_id_digits = to_bytes32(job_number).hex()
    all_logs = read_logs(node, log_filter, first=first_block, end=head)
    # In both events the first 32 bytes of the data are the job id.
    logs = [log for log in all_logs if log["data"][2:66] == job_id_digits]
    (record,) = ask(node, [contracts.jobs.get(job_number)], at_block=head)
    times = _block_times(node, logs)
    yield from _translate_plain_logs(
        transition_event, logs, times, escrow=record.escrow, cost=record.final_cost
    )


def _decode(event: EventType, log: Log, times: Mapping[str, int]) -> HistoryEvent:
    fields = event.decode(log)
    numbers = {name: value for name, value in fields.items() if isinstance(value, int)}
    evidence = f"0x{fields['evidence'].hex()}" if "evidence" in fields else ""
    return _history_event(event.name, log, times, numbers, evidence=evidence)


def _translate_plain_logs(
    transition_event: EventType,
    logs: Iterable[Log],
    times: Mapping[str, int],
    *,
    escrow: int,
    cost: int,
) -> Iterator[HistoryEvent]:
    """Yield the state changes of a job on plain DeepSquare, with the names of our events.

    A job is settled once, so the cost in its record is the cost of the settlement.
    """
    for log in logs:
        if log["topics"][0] != transition_event.topic:
            yield _history_event("JobRequested", log, times, {})
            continue
        fields = transition_event.decode(log)
        old_state, new_state = JobState(fields["_from"]), JobState(fields["_to"])
        if new_state not in COLD:
            numbers = {}
            if new_state is JobState.RUNNING:
                numbers["startTime"] = times[log["blockNumber"]]
            yield _history_event(_EVENTS_BY_STATE[new_state], log, times, numbers)
        elif old_state is JobState.RUNNING and cost:
            yield _history_event("JobSettled", log, times, {"status": new_state, "cost": cost})
        else:
            # The job has no cost, so the customer gets the whole escrow back.
            yield _history_event("JobRefunded", log, times, {"status": new_state, "amount": escrow})


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


def _block_times(node: Node, logs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    heights = sorted({log["blockNumber"] for log in logs})
    answers = node.batch([("eth_getBlockByNumber", [height, False]) for height in heights])
    times = {}
    for height, answer in zip(heights, answers, strict=True):
        if isinstance(answer, RpcError) or answer is None:
            raise ChainUnavailable(f"could not read block {height}", detail=str(answer))
        times[height] = to_block(answer).timestamp
    return times
