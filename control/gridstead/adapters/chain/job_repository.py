# SPDX-License-Identifier: Apache-2.0
"""The contract JobRepository, which stores the records of all jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gridstead.adapters.chain.contract import Contract, ViewCall, to_bytes32
from gridstead.adapters.chain.records import ChainJobRecord, ChainJobTerms

NEVER = 2**256 - 1  # the maximum of uint256


class JobRepository(Contract):
    """The job records. A call with an unknown number reverts with InvalidJob.

    A function that is marked "ours only" exists only in Gridstead's contracts, not in those of
    DeepSquare 1.2.
    """

    __slots__ = ()

    def __init__(self, address: str) -> None:
        super().__init__("JobRepository", address)

    def get(self, number: int) -> ViewCall[ChainJobRecord]:
        """Return a call for the record of a job."""
        return self.view(ChainJobRecord.of, "get", to_bytes32(number))

    def by_customer(self, customer: str) -> ViewCall[tuple[int, ...]]:
        """Return a call for the numbers of a customer's jobs, oldest first."""
        return self.view(_numbers, "getByCustomer", customer)

    def get_many(self, numbers: Iterable[int]) -> ViewCall[tuple[ChainJobRecord, ...]]:
        """Return a call for the records of several jobs; ours only."""
        return self.view(_records, "getMany", list(map(to_bytes32, numbers)))

    def terms_of_many(self, numbers: Iterable[int]) -> ViewCall[tuple[ChainJobTerms, ...]]:
        """Return a call for the terms of several jobs; ours only."""
        return self.view(_terms, "termsMany", list(map(to_bytes32, numbers)))

    def bill_until_of_many(self, numbers: Iterable[int]) -> ViewCall[tuple[int | None, ...]]:
        """Return a call for the times up to which runs of several jobs are billed.

        Only contracts with requests to cancel have this view. A time is in Unix seconds. A job
        without such a limit has None.
        """
        return self.view(_limits, "billUntilMany", list(map(to_bytes32, numbers)))

    def terms(self, number: int) -> ViewCall[ChainJobTerms]:
        """Return a call for the terms of a job; ours only."""
        return self.view(ChainJobTerms.of, "terms", to_bytes32(number))


def _numbers(ids: Iterable[bytes]) -> tuple[int, ...]:
    return tuple(map(int.from_bytes, ids))


def _records(structs: Iterable[tuple[Any, ...]]) -> tuple[ChainJobRecord, ...]:
    return tuple(map(ChainJobRecord.of, structs))


def _terms(structs: Iterable[tuple[Any, ...]]) -> tuple[ChainJobTerms, ...]:
    return tuple(map(ChainJobTerms.of, structs))


def _limits(times: Iterable[int]) -> tuple[int | None, ...]:
    return tuple(None if time == NEVER else time for time in times)
