# SPDX-License-Identifier: Apache-2.0
"""The ports that read the grid's contracts and send the transactions of a wallet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.jobs.ids import JobId
from gridstead.domain.jobs.job import Block, Job, Provider, QueueSizes
from gridstead.domain.matching.expiry import Timeouts
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import Fees, Receipt, Reply, Transaction
from gridstead.errors import TransactionReverted


class Ledger(Protocol):
    """Reads the grid's contracts. Every answer is the state at one block."""

    def head(self) -> Block:
        """Return the newest block."""
        ...

    def block(self, number: int) -> Block | None:
        """Return the canonical block at a height. Returns None if the chain is shorter."""
        ...

    def jobs(self, job_ids: Iterable[JobId], *, at_block: Block) -> Mapping[JobId, Job]:
        """Return the jobs that exist at a block. Unknown and foreign jobs are omitted."""
        ...

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        """Return the grid's events from a height up to a block, in the order of the chain.

        Both ends are included. All events are on the fork of the end block. A ledger may be limited
        to the claims of one provider; it may then omit all other events.
        """
        ...

    def queue_sizes(self, provider: str, *, at_block: Block) -> QueueSizes:
        """Return the sizes of a provider's queues. They may include stale entries."""
        ...

    def providers(self, addresses: Iterable[str], *, at_block: Block) -> Mapping[str, Provider]:
        """Return the records of these providers. Providers that never registered are omitted."""
        ...

    def waiting_provider(self, address: str, *, at_block: Block) -> Provider | None:
        """Return the record of a provider that waits for approval, None if it does not wait."""
        ...

    def timeouts(self, *, at_block: Block) -> Timeouts:
        """Return the timeouts of the grid at a block."""
        ...


class Account(Protocol):
    """Signs and sends the transactions of one wallet."""

    @property
    def address(self) -> str:
        """The address of the wallet, lower case."""
        ...

    def nonce(self, *, at_block: Block) -> int:
        """Return the next nonce of the wallet at a block."""
        ...

    def fees(self) -> Fees:
        """Return the fees with which a transaction should get into one of the next blocks."""
        ...

    def receipts(self, hashes: Iterable[str]) -> Mapping[str, Receipt]:
        """Return the receipts of those transactions that are in a canonical block, by hash."""
        ...

    def gas(
        self, batches: Sequence[Sequence[Call]], *, available_gas: int
    ) -> tuple[int | TransactionReverted, ...]:
        """Return the gas limit of the transaction of each batch.

        Returns the revert instead if the contract would refuse the whole batch. A batch without
        calls is never refused.

        Args:
            batches: Batches of calls of one type. A batch may be empty.
            available_gas: The gas limit of a block. An estimated gas limit is never higher. A claim
                takes as many jobs as this gas allows.
        """
        ...

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction with these calls.

        Without calls the transaction only uses its nonce. A claim takes as many jobs as ``gas``
        allows.
        """
        ...

    def gas_limit(self, *, at_block: Block) -> int:
        """Return the gas limit of a block."""
        ...

    def gas_of(self, call: Call) -> int:
        """Return the maximum gas that a call adds to a batch.

        Returns 0 if the call is never in a batch with others.
        """
        ...

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Send transactions to the node in this order, and return its answers. Safe to repeat."""
        ...
