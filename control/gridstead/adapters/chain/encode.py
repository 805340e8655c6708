# SPDX-License-Identifier: Apache-2.0
"""Domain calls as data of transactions.

Calls of one kind about jobs go into one batch, even a single one: an element that the contract
refuses is then told by an event, with the reason, and harms no other. Only what a provider left
lying is ended one by one.

Plain DeepSquare has no batches, seconds, start times, evidence or highest prices: each call goes
alone, and of what it says only that is sent which the old call can take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gridstead.adapters.chain.contract import Payload, job_id
from gridstead.adapters.chain.contracts import Contracts
from gridstead.domain.calls import (
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
from gridstead.domain.lifecycle import JobState
from gridstead.domain.settlement import billed_minutes

__all__ = ["Payload", "encode", "gas_of"]

QUEUE_ENTRIES = 50
ERROR_BYTES = 500

# A claim takes what waits when it is mined, which may be more than when its gas was estimated.
# Source: contracts/gas.md, line "claim": 99,042 for a job alone, 57,582 for each of 50 together;
# above both.
CLAIM_GAS_BASE = 210_000
CLAIM_GAS_PER_JOB = 60_000

# Ceilings of what a batch can use, measured on our contracts and held by a test; what is not used
# is not paid.
GAS_BASE = 80_000
GAS_PER_ERROR_BYTE = 850
GAS_PER_CALL: dict[type[Call], int] = {
    Match: 90_000,
    SetRunning: 50_000,
    Settle: 130_000,
    Refuse: 50_000,
}


def encode(calls: Sequence[Call], contracts: Contracts, *, room: int | None = None) -> Payload:
    """Return the payload of a transaction with these calls, which are of one kind.

    A claim is of no more jobs than fit into so much gas, but of one at least.
    """
    if contracts.has_batches:
        return _batch(calls, contracts, room=room)
    (call,) = calls
    return _plain(call, contracts)


def gas_of(call: Call) -> int:
    """Return what a call adds to a batch at most; 0 if it is never in one with others."""
    texts = len(_error(call).encode()) if isinstance(call, Settle) else 0
    return GAS_PER_CALL.get(type(call), 0) + GAS_PER_ERROR_BYTE * texts


def _batch(calls: Sequence[Call], contracts: Contracts, *, room: int | None) -> Payload:
    grid = contracts.meta_scheduler
    gas = GAS_BASE + sum(gas_of(call) for call in calls)
    match calls[0]:
        case Register() as call:
            return contracts.providers.register(call.hardware, call.prices, call.labels)
        case ClaimJobs(limit=limit):
            jobs = (
                limit
                if room is None
                else max(1, min(limit, (room - CLAIM_GAS_BASE) // CLAIM_GAS_PER_JOB))
            )
            return replace(
                grid.claim_jobs(jobs), least_gas=CLAIM_GAS_BASE + CLAIM_GAS_PER_JOB * jobs
            )
        case ClaimCancelling():
            return grid.claim_cancellations(QUEUE_ENTRIES)
        case ClaimTopUp():
            return grid.claim_top_ups(QUEUE_ENTRIES)
        case Match():
            return grid.meta_schedule_many(
                (_match(c) for c in calls if isinstance(c, Match)), gas=gas
            )
        case SetRunning():
            starts = (
                (job_id(_number(c)), c.started_at) for c in calls if isinstance(c, SetRunning)
            )
            return grid.set_running_many(starts, gas=gas)
        case Refuse():
            return grid.refuse_many((_number(c) for c in calls if isinstance(c, Refuse)), gas=gas)
        case Settle():
            return grid.settle_many(
                (_settlement(c) for c in calls if isinstance(c, Settle)), gas=gas
            )
        case Expire() as call:
            return grid.expire_job(_number(call))


def _plain(call: Call, contracts: Contracts) -> Payload:
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
    return job_id(_number(call)), call.provider, call.max_price_per_min


def _settlement(call: Settle) -> tuple[bytes, int, int, int, str, bytes]:
    evidence = bytes.fromhex(call.evidence.removeprefix("0x"))
    return job_id(_number(call)), call.state, call.seconds, call.exit_code, _error(call), evidence


def _error(call: Settle) -> str:
    return call.error.encode()[:ERROR_BYTES].decode(errors="ignore")


def _number(call: Match | SetRunning | Refuse | Settle | Expire) -> int:
    return call.job_key.job_id.number
