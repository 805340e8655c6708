# SPDX-License-Identifier: Apache-2.0
"""Encodes domain calls as payloads of transactions.

Calls of one kind about jobs become one batch, even a single call. The contract skips an element
that it refuses, and emits an event with the reason; the other elements are not affected. Only
expired jobs are ended one by one.

Plain DeepSquare has no batches, seconds, start times, evidence or highest prices. There, each call
is a transaction of its own and has only the values that the older function accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from gridstead.adapters.chain.contract import Payload, to_bytes32
from gridstead.adapters.chain.contracts import Contracts
from gridstead.domain.jobs.lifecycle import JobState
from gridstead.domain.supervisor.settlement import billed_minutes
from gridstead.domain.transactions.calls import (
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Expire,
    Match,
    Refuse,
    Register,
    SetRunning,
    Settle,
)

__all__ = ["Payload", "encode", "gas_of"]

C = TypeVar("C", bound=Call)

QUEUE_ENTRIES = 50
ERROR_BYTES = 500

# A claim takes the jobs that wait when it is mined, which may be more than when its gas was
# estimated. These limits are above both figures of their source: contracts/gas.md, line "claim",
# 99,042 for a single job and 57,582 for each of 50 jobs.
CLAIM_GAS_BASE = 210_000
CLAIM_GAS_PER_JOB = 60_000

# Upper limits of the gas of a batch, measured on our contracts and checked by a test. Gas that is
# not used is not paid.
GAS_BASE = 80_000
GAS_PER_ERROR_BYTE = 850
GAS_PER_CALL: dict[type[Call], int] = {
    Match: 90_000,
    SetRunning: 50_000,
    Settle: 130_000,
    Refuse: 50_000,
}


def encode(calls: Sequence[Call], contracts: Contracts, *, room: int | None = None) -> Payload:
    """Return the payload of a transaction with these calls.

    Args:
        calls: One or more, all of one kind.
        contracts: The grid.
        room: The gas that is available. A claim takes at most as many jobs as this gas allows, but
            at least one.
    """
    if contracts.has_batches:
        return _encode_batch(calls, contracts, room=room)
    (call,) = calls
    return _encode_plain(call, contracts)


def gas_of(call: Call) -> int:
    """Return the most gas that a call can add to a batch; 0 if it is never batched."""
    error_bytes = len(_error(call).encode()) if isinstance(call, Settle) else 0
    return GAS_PER_CALL.get(type(call), 0) + GAS_PER_ERROR_BYTE * error_bytes


def _encode_batch(calls: Sequence[Call], contracts: Contracts, *, room: int | None) -> Payload:
    grid = contracts.meta_scheduler
    gas = GAS_BASE + sum(map(gas_of, calls))
    match calls[0]:
        case Register() as call:
            return contracts.providers.register(call.hardware, call.prices, call.labels)
        case ClaimJobs() as call:
            return _claim_jobs(call, contracts, room=room)
        case ClaimCancelling():
            return grid.claim_cancellations(QUEUE_ENTRIES)
        case ClaimTopUp():
            return grid.claim_top_ups(QUEUE_ENTRIES)
        case Match():
            matches = map(_match, _of_type(calls, Match))
            return grid.meta_schedule_many(matches, gas=gas)
        case SetRunning():
            starts = map(_start, _of_type(calls, SetRunning))
            return grid.set_running_many(starts, gas=gas)
        case Refuse():
            return grid.refuse_many(map(_number, _of_type(calls, Refuse)), gas=gas)
        case Settle():
            return grid.settle_many(map(_settlement, _of_type(calls, Settle)), gas=gas)
        case Expire() as call:
            return grid.expire_job(_number(call))


def _of_type(calls: Iterable[Call], kind: type[C]) -> Iterator[C]:
    return (call for call in calls if isinstance(call, kind))


def _claim_jobs(call: ClaimJobs, contracts: Contracts, *, room: int | None) -> Payload:
    jobs = call.limit
    if room is not None:
        jobs = max(1, min(jobs, (room - CLAIM_GAS_BASE) // CLAIM_GAS_PER_JOB))
    least_gas = CLAIM_GAS_BASE + CLAIM_GAS_PER_JOB * jobs
    return replace(contracts.meta_scheduler.claim_jobs(jobs), least_gas=least_gas)


def _encode_plain(call: Call, contracts: Contracts) -> Payload:
    grid = contracts.meta_scheduler
    match call:
        case Register():
            return contracts.providers.register(call.hardware, call.prices, call.labels)
        case ClaimJobs():
            return grid.claim_next_job()
        case ClaimCancelling():
            return grid.claim_next_cancelling_job()
        case ClaimTopUp():
            return grid.claim_next_top_up_job()
        case Match(provider=provider):
            return grid.meta_schedule(_number(call), provider)
        case SetRunning():
            return grid.provider_set_job_status(_number(call), JobState.RUNNING)
        case Refuse():
            return grid.refuse_job(_number(call))
        case Settle(state=state, seconds=seconds, exit_code=exit_code):
            minutes = billed_minutes(state, seconds)
            return grid.provider_set_job_status(
                _number(call), state, minutes=minutes, error=_error(call), exit_code=exit_code
            )
        case Expire():
            return grid.timeout_job(_number(call))


def _match(call: Match) -> tuple[bytes, str, int]:
    return to_bytes32(_number(call)), call.provider, call.max_price_per_min


def _start(call: SetRunning) -> tuple[bytes, int]:
    return to_bytes32(_number(call)), call.started_at


def _settlement(call: Settle) -> tuple[bytes, int, int, int, str, bytes]:
    evidence = bytes.fromhex(call.evidence.removeprefix("0x"))
    return (
        to_bytes32(_number(call)),
        call.state,
        call.seconds,
        call.exit_code,
        _error(call),
        evidence,
    )


def _error(call: Settle) -> str:
    return call.error.encode()[:ERROR_BYTES].decode(errors="ignore")


def _number(call: Match | SetRunning | Refuse | Settle | Expire) -> int:
    return call.job_key.job_id.number
