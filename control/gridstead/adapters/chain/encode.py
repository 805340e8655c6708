# SPDX-License-Identifier: Apache-2.0
"""Domain calls as data of transactions.

Calls of one kind about jobs go into one batch, even a single one: an element that the contract refuses is then told by
an event, with the reason, and harms no other. Plain DeepSquare has no batches, seconds or start times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridstead.adapters.chain.contracts import Contract, Contracts
from gridstead.domain.billing import SECONDS_PER_MINUTE
from gridstead.domain.calls import (
    Call,
    ClaimCancelling,
    ClaimJobs,
    ClaimTopUp,
    Match,
    Refuse,
    Register,
    SetRunning,
    Settle,
)
from gridstead.domain.lifecycle import JobState

QUEUE_ENTRIES = 50
ERROR_BYTES = 500
NO_EVIDENCE = bytes(32)

# Ceilings of what a batch can use, measured on our contracts and held by a test; what is not used is not paid.
GAS_BASE = 80_000
GAS_PER_ERROR_BYTE = 850
GAS_PER_CALL: dict[type[Call], int] = {
    Match: 90_000,
    SetRunning: 50_000,
    Settle: 130_000,
    Refuse: 50_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a transaction does: contract address and data, the gas it can use (None: ask), coins to send along (wei)."""

    to: str
    data: str
    gas: int | None
    value: int = 0


def encode(calls: Sequence[Call], contracts: Contracts) -> Payload:
    """Return the payload of a transaction with these calls, which are of one kind."""
    if contracts.has_batches:
        return _batch(calls, contracts)
    (call,) = calls
    return _plain(call, contracts)


def _batch(calls: Sequence[Call], contracts: Contracts) -> Payload:
    grid = contracts.meta_scheduler
    match calls[0]:
        case Register() as call:
            return _register(call, contracts)
        case ClaimJobs(limit=limit):
            return _payload(grid, grid.data("claimJobs", limit))
        case ClaimCancelling():
            return _payload(grid, grid.data("claimCancellations", QUEUE_ENTRIES))
        case ClaimTopUp():
            return _payload(grid, grid.data("claimTopUps", QUEUE_ENTRIES))
        case Match():
            data = grid.data("metaScheduleMany", [_match(c) for c in calls if isinstance(c, Match)])
        case SetRunning():
            data = grid.data("setRunningMany", [(_id(c), c.started_at) for c in calls if isinstance(c, SetRunning)])
        case Refuse():
            data = grid.data("refuseMany", [_id(c) for c in calls if isinstance(c, Refuse)])
        case Settle():
            data = grid.data("settleMany", [_settlement(c) for c in calls if isinstance(c, Settle)])
    return _payload(grid, data, GAS_BASE + sum(gas_of(call) for call in calls))


def _plain(call: Call, contracts: Contracts) -> Payload:
    grid = contracts.meta_scheduler
    match call:
        case Register():
            return _register(call, contracts)
        case ClaimJobs():
            return _payload(grid, grid.data("claimNextJob"))
        case ClaimCancelling():
            return _payload(grid, grid.data("claimNextCancellingJob"))
        case ClaimTopUp():
            return _payload(grid, grid.data("claimNextTopUpJob"))
        case Match(provider=provider):
            return _payload(grid, grid.data("metaSchedule", _id(call), provider))
        case SetRunning():
            data = grid.data("providerSetJobStatus", _id(call), JobState.RUNNING, 0, "", 0)
        case Refuse():
            data = grid.data("refuseJob", _id(call))
        case Settle(state=state, seconds=seconds, exit_code=exit_code):
            minutes = seconds // SECONDS_PER_MINUTE  # never more than was used
            data = grid.data("providerSetJobStatus", _id(call), state, minutes, _error(call), exit_code)
    return _payload(grid, data)


def _register(call: Register, contracts: Contracts) -> Payload:
    hardware, prices = call.hardware, call.prices
    nodes = (hardware.nodes, hardware.gpus_per_node, hardware.cpus_per_node, hardware.memory_per_node_mb)
    asked = (prices.gpu_per_min, prices.cpu_per_min, prices.memory_mb_per_min)
    labels = [(label.key, label.value) for label in call.labels]
    return _payload(contracts.providers, contracts.providers.data("register", nodes, asked, labels))


def _match(call: Match) -> tuple[bytes, str, int]:
    return _id(call), call.provider, call.max_price_per_min


def _settlement(call: Settle) -> tuple[bytes, int, int, int, str, bytes]:
    evidence = bytes.fromhex(call.evidence.removeprefix("0x"))
    return _id(call), call.state, call.seconds, call.exit_code, _error(call), evidence


def _error(call: Settle) -> str:
    return call.error.encode()[:ERROR_BYTES].decode(errors="ignore")


def gas_of(call: Call) -> int:
    """Return what a call adds to a batch at most; 0 if it is never in one with others."""
    texts = len(_error(call).encode()) if isinstance(call, Settle) else 0
    return GAS_PER_CALL.get(type(call), 0) + GAS_PER_ERROR_BYTE * texts


def _id(call: Match | SetRunning | Refuse | Settle) -> bytes:
    return call.proof.job_id.number.to_bytes(32)


def _payload(contract: Contract, data: str, gas: int | None = None) -> Payload:
    return Payload(to=contract.address, data=data, gas=gas)
