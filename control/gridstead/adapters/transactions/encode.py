# SPDX-License-Identifier: Apache-2.0
"""Encodes domain calls as payloads of transactions.

Calls of one type about jobs are encoded as one batch, and a single call as a batch of one. Expiries
have no batch. If the contract refuses an element of a batch, it skips the element and emits an
event with the reason. The other elements are not affected.

The contracts of DeepSquare 1.2 ("plain DeepSquare"), from which Gridstead's contracts are derived,
have no batches, seconds, start times, evidence or price limits. For these contracts, each call is
encoded as one transaction, and values that the contracts do not accept are omitted.
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
    MAX_ERROR_BYTES,
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

C = TypeVar("C", bound=Call)

QUEUE_ENTRIES = 50  # entries of a queue that one claim takes

# The estimate of a claim's gas may be too low, because more jobs may wait when the claim is mined.
# contracts/gas.md, line "claim", has the measured gas: 99,064 for a single job and 57,583
# for each of 50 jobs. These limits are higher than both.
CLAIM_GAS_BASE = 210_000
CLAIM_GAS_PER_JOB = 60_000

# Upper limits of the gas of a batch, checked by tests/adapters/chain/test_sender.py. Unused gas is
# not paid. Settlements use most gas per job if there is only one: 90,000 if the job succeeded,
# 184,000 with an exit code and the longest error text. Line "settleMany, failed" of
# contracts/gas.md has the gas per job in a batch.
GAS_BASE = 80_000
GAS_PER_ERROR_BYTE = 850
GAS_PER_CALL: dict[type[Call], int] = {
    Match: 90_000,
    SetRunning: 50_000,
    Settle: 130_000,
    Refuse: 70_000,
}


def encode(
    calls: Sequence[Call], contracts: Contracts, *, available_gas: int | None = None
) -> Payload:
    """Return the payload of a transaction with these calls.

    Args:
        calls: One or more calls of one type. Plain DeepSquare accepts only one.
        contracts: The contracts of the grid.
        available_gas: Limits the number of jobs that a claim takes; a claim takes at least one.
            None for no limit.
    """
    if contracts.has_batches:
        return _encode_batch(calls, contracts, available_gas=available_gas)
    (call,) = calls
    return _encode_plain(call, contracts)


def gas_of(call: Call) -> int:
    """Return the maximum gas that a call adds to a batch; 0 if it is never in a batch."""
    error_bytes = len(_error(call).encode()) if isinstance(call, Settle) else 0
    return GAS_PER_CALL.get(type(call), 0) + GAS_PER_ERROR_BYTE * error_bytes


def _encode_batch(
    calls: Sequence[Call], contracts: Contracts, *, available_gas: int | None
) -> Payload:
    """Return the payload for our contracts."""
    meta_scheduler = contracts.meta_scheduler
    gas = GAS_BASE + sum(map(gas_of, calls))
    match calls[0]:
        case Register() as call:
            return contracts.providers.register(call.hardware, call.prices, call.labels)
        case ClaimJobs() as call:
            return _claim_jobs(call, contracts, available_gas=available_gas)
        case ClaimCancelling():
            return meta_scheduler.claim_cancellations(QUEUE_ENTRIES)
        case ClaimTopUp():
            return meta_scheduler.claim_top_ups(QUEUE_ENTRIES)
        case Match():
            matches = map(_match, _of_type(calls, Match))
            return meta_scheduler.meta_schedule_many(matches, gas=gas)
        case SetRunning():
            starts = map(_start, _of_type(calls, SetRunning))
            return meta_scheduler.set_running_many(starts, gas=gas)
        case Refuse():
            numbers = map(_number, _of_type(calls, Refuse))
            return meta_scheduler.refuse_many(numbers, gas=gas)
        case Settle():
            settlements = map(_settlement, _of_type(calls, Settle))
            return meta_scheduler.settle_many(settlements, gas=gas)
        case Expire() as call:
            return meta_scheduler.expire_job(_number(call))


def _of_type(calls: Iterable[Call], call_type: type[C]) -> Iterator[C]:
    return (call for call in calls if isinstance(call, call_type))


def _claim_jobs(call: ClaimJobs, contracts: Contracts, *, available_gas: int | None) -> Payload:
    jobs = call.limit
    if available_gas is not None:
        affordable_jobs = (available_gas - CLAIM_GAS_BASE) // CLAIM_GAS_PER_JOB
        jobs = max(1, min(jobs, affordable_jobs))
    min_gas = CLAIM_GAS_BASE + CLAIM_GAS_PER_JOB * jobs
    return replace(contracts.meta_scheduler.claim_jobs(jobs), min_gas=min_gas)


def _encode_plain(call: Call, contracts: Contracts) -> Payload:
    """Return the payload for the contracts of plain DeepSquare."""
    meta_scheduler = contracts.meta_scheduler
    match call:
        case Register():
            return contracts.providers.register(call.hardware, call.prices, call.labels)
        case ClaimJobs():
            return meta_scheduler.claim_next_job()
        case ClaimCancelling():
            return meta_scheduler.claim_next_cancelling_job()
        case ClaimTopUp():
            return meta_scheduler.claim_next_top_up_job()
        case Match(provider=provider):
            return meta_scheduler.meta_schedule(_number(call), provider)
        case SetRunning():
            return meta_scheduler.provider_set_job_status(_number(call), JobState.RUNNING)
        case Refuse():
            return meta_scheduler.refuse_job(_number(call))
        case Settle(state=state, seconds=seconds, exit_code=exit_code):
            minutes = billed_minutes(state, seconds)
            return meta_scheduler.provider_set_job_status(
                _number(call), state, minutes=minutes, error=_error(call), exit_code=exit_code
            )
        case Expire():
            return meta_scheduler.timeout_job(_number(call))


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
    """Return the error text, truncated to MAX_ERROR_BYTES without splitting a character.

    Earlier releases stored longer texts in the outbox.
    """
    return call.error.encode(errors="replace")[:MAX_ERROR_BYTES].decode(errors="ignore")


def _number(call: Match | SetRunning | Refuse | Settle | Expire) -> int:
    return call.job_key.job_id.number
