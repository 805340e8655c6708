# SPDX-License-Identifier: Apache-2.0
"""Converts the contracts' structs to domain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from gridstead.adapters.chain.abi import text
from gridstead.domain.jobs.billing import Prices, Resources
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Affinity, Hardware, Job, Label, Provider
from gridstead.domain.jobs.lifecycle import COLD, JobState

NO_ADDRESS = "0x" + "00" * 20


def to_address(value: str) -> str:
    """Return an address in lower case, or "" for the zero address."""
    address = value.lower()
    return "" if address == NO_ADDRESS else address


def to_name(data: bytes) -> str:
    """Return a text without its padding of zero bytes."""
    return text(data.rstrip(b"\0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainJobTerms:
    """What struct ``Job`` does not contain.

    Attributes:
        price_per_min: The price of one minute of the whole job, wei. 0 if the job is not matched.
        started_at: Unix seconds. 0 if the job has not started. In struct ``Job``, the start of a
            job that ended without a start is the time of the end.
    """

    price_per_min: int
    started_at: int

    @classmethod
    def of(cls, struct: tuple[Any, ...]) -> Self:
        """Return the terms of a decoded struct ``JobTerms``; only our contracts have it."""
        _, _, _, price, _, _, start, *_ = struct
        return cls(price_per_min=price, started_at=start)


@dataclass(frozen=True, slots=True)
class ChainJobRecord:
    """The decoded struct ``Job``. Gridstead's and DeepSquare's contracts have the same struct.

    Addresses are lower case. A zero address in the struct becomes "".
    """

    number: int
    customer: str
    provider: str
    resources: Resources
    state: JobState
    escrow: int
    final_cost: int
    fields: tuple[Any, ...]

    @classmethod
    def of(cls, struct: tuple[Any, ...]) -> Self:
        """Return the record of a decoded struct."""
        # The order of the fields is that of struct Job in contracts/src/Types.sol.
        gpus, memory, cpus, tasks, *_ = struct[4]
        return cls(
            number=int.from_bytes(struct[0]),
            customer=to_address(struct[2]),
            provider=to_address(struct[3]),
            resources=Resources(
                gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory
            ),
            state=JobState(struct[1]),
            escrow=struct[5][0],
            final_cost=struct[5][1],
            fields=struct,
        )

    @property
    def apparent_start(self) -> int:
        """The start according to the struct: 0 if it equals the end, so that the job never ran.

        A job that ran for less than a second is not distinguishable from one that never ran.
        """
        start, end = self.fields[6][1:3]
        return 0 if start == end else int(start)

    @property
    def has_open_request(self) -> bool:
        """Whether the customer requested to cancel the job, and the job has not ended."""
        is_requested: bool = self.fields[8]
        return is_requested and self.state not in COLD

    def to_job(self, job_id: JobId, terms: ChainJobTerms, bill_until: int | None = None) -> Job:
        """Return the job with this id, which has the record's number.

        Args:
            job_id: The id.
            terms: The terms of the job.
            bill_until: The time up to which a run is billed, Unix seconds. None without a limit.
        """
        _, _, _, _, definition, _, time, name, cancel, last_error, exit_code = self.fields
        *_, script, _, uses, affinity = definition
        return Job(
            id=job_id,
            state=self.state,
            customer=self.customer,
            provider=self.provider,
            resources=self.resources,
            batch_location_hash=text(script),
            uses=_labels(uses),
            affinity=tuple(map(_affinity, affinity)),
            escrow=self.escrow,
            final_cost=self.final_cost,
            price_per_min=terms.price_per_min,
            submitted_at=time[0],
            started_at=terms.started_at,
            ended_at=time[2],
            state_block=time[4],
            cancel_requested=cancel,
            cancel_requested_at=time[3],
            bill_until=bill_until if self.has_open_request else None,
            name=to_name(name),
            exit_code=exit_code,
            last_error=text(last_error),
        )


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """The decoded struct ``Provider``. For an unknown provider, all fields are 0 or empty."""

    address: str
    hardware: Hardware
    prices: Prices
    labels: tuple[Label, ...]

    @classmethod
    def of(cls, struct: tuple[Any, ...]) -> Self:
        """Return the record of a decoded struct. The labels are sorted by key."""
        address, (_, gpus, cpus, memory), (gpu_price, cpu_price, memory_price), labels, _ = struct
        return cls(
            address=to_address(address),
            hardware=Hardware(
                gpus_per_node=tuple(gpus),
                cpus_per_node=tuple(cpus),
                memory_per_node_mb=tuple(memory),
            ),
            prices=Prices(
                gpu_per_min=gpu_price, cpu_per_min=cpu_price, memory_mb_per_min=memory_price
            ),
            labels=tuple(sorted(_labels(labels), key=lambda label: label.key)),
        )

    def to_provider(self, *, is_joined: bool, is_waiting: bool, is_banned: bool) -> Provider | None:
        """Return the provider, or None if the record is empty."""
        if not self.address:
            return None
        return Provider(
            address=self.address,
            hardware=self.hardware,
            prices=self.prices,
            labels=self.labels,
            is_joined=is_joined,
            is_waiting=is_waiting,
            is_banned=is_banned,
        )


def _labels(records: tuple[tuple[bytes, bytes], ...]) -> tuple[Label, ...]:
    return tuple(Label(key=text(key), value=text(value)) for key, value in records)


def _affinity(record: tuple[tuple[bytes, bytes], bytes]) -> Affinity:
    (key, value), operator = record
    symbol = to_name(operator)
    if symbol == "=":
        symbol = "=="
    return Affinity(key=text(key), operator=symbol, value=text(value))
