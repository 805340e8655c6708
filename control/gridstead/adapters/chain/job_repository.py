# SPDX-License-Identifier: Apache-2.0
"""JobRepository: the records of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gridstead.adapters.chain.contract import Contract, ViewCall, job_id
from gridstead.adapters.chain.records import ChainJobRecord


class JobRepository(Contract):
    """The jobs. An unknown number reverts with InvalidJob."""

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("JobRepository", address)

    def get(self, number: int) -> ViewCall[ChainJobRecord]:
        """Ask for a job."""
        return self.view(ChainJobRecord.of, "get", job_id(number))

    def by_customer(self, customer: str) -> ViewCall[tuple[int, ...]]:
        """Ask for the numbers of a customer's jobs, oldest first."""
        return self.view(_numbers, "getByCustomer", customer)

    def get_many(self, numbers: Iterable[int]) -> ViewCall[tuple[ChainJobRecord, ...]]:
        """Ask for jobs; ours only."""
        return self.view(_records, "getMany", [job_id(number) for number in numbers])

    def prices_of_many(self, numbers: Iterable[int]) -> ViewCall[tuple[int, ...]]:
        """Ask what a minute of jobs costs, wei, 0 while not matched; ours only."""
        return self.view(_prices, "termsMany", [job_id(number) for number in numbers])

    def price_per_minute(self, number: int) -> ViewCall[int]:
        """Ask what a minute of a job costs, wei, 0 while it is not matched; ours only."""
        return self.view(int, "pricePerMinute", job_id(number))


def _numbers(ids: Iterable[bytes]) -> tuple[int, ...]:
    return tuple(int.from_bytes(one) for one in ids)


def _records(structs: Iterable[tuple[Any, ...]]) -> tuple[ChainJobRecord, ...]:
    return tuple(ChainJobRecord.of(one) for one in structs)


def _prices(terms: Iterable[tuple[Any, ...]]) -> tuple[int, ...]:
    return tuple(one[3] for one in terms)
