# SPDX-License-Identifier: Apache-2.0
"""The contracts' structs as domain values."""

from __future__ import annotations

from typing import Any

from gridstead.adapters.chain.abi import text
from gridstead.domain.billing import Prices, Resources
from gridstead.domain.ids import JobId
from gridstead.domain.job import Affinity, Hardware, Job, Label, Provider
from gridstead.domain.lifecycle import JobState

NO_ADDRESS = "0x" + "00" * 20


def to_address(value: str) -> str:
    """Return an address in lower case, empty for the zero address."""
    address = value.lower()
    return "" if address == NO_ADDRESS else address


def to_name(data: bytes) -> str:
    """Return a text that was padded with zeros to 32 bytes."""
    return text(data.rstrip(b"\0"))


def to_job(record: tuple[Any, ...], *, chain_id: int, contract: str, price_per_min: int) -> Job:
    """Return the job that the struct ``Job`` tells.

    Args:
        record: The struct, decoded.
        chain_id: Of the chain.
        contract: The MetaScheduler's address, lower case.
        price_per_min: Of the whole job, which is not in the struct; wei.
    """
    number, state, customer, provider, definition, cost, time, name, cancel, last_error, exit_code = record
    gpus, memory, cpus, tasks, script, _, uses, affinity = definition
    return Job(
        id=JobId(chain_id=chain_id, contract=contract, number=int.from_bytes(number)),
        state=JobState(state),
        customer=to_address(customer),
        provider=to_address(provider),
        resources=Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory),
        batch_location_hash=text(script),
        uses=_labels(uses),
        affinity=tuple(_affinity(one) for one in affinity),
        lock=cost[0],
        final_cost=cost[1],
        price_per_min=price_per_min,
        submitted_at=time[0],
        started_at=time[1],
        ended_at=time[2],
        state_block=time[4],
        cancel_requested=cancel,
        name=to_name(name),
        exit_code=exit_code,
        last_error=text(last_error),
    )


def to_provider(record: tuple[Any, ...], *, joined: bool, waiting: bool, banned: bool) -> Provider | None:
    """Return the provider that the struct ``Provider`` tells, None if it is all zeros."""
    address, (_, gpus, cpus, memory), (gpu_price, cpu_price, memory_price), labels, _ = record
    if not to_address(address):
        return None
    return Provider(
        address=to_address(address),
        hardware=Hardware(gpus_per_node=tuple(gpus), cpus_per_node=tuple(cpus), memory_per_node_mb=tuple(memory)),
        prices=Prices(gpu_per_min=gpu_price, cpu_per_min=cpu_price, memory_mb_per_min=memory_price),
        labels=tuple(sorted(_labels(labels), key=lambda label: label.key)),
        joined=joined,
        waiting=waiting,
        banned=banned,
    )


def _labels(records: tuple[tuple[bytes, bytes], ...]) -> tuple[Label, ...]:
    return tuple(Label(key=text(key), value=text(value)) for key, value in records)


def _affinity(record: tuple[tuple[bytes, bytes], bytes]) -> Affinity:
    (key, value), operator = record
    sign = to_name(operator)
    return Affinity(key=text(key), operator="==" if sign == "=" else sign, value=text(value))
