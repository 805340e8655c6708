# SPDX-License-Identifier: Apache-2.0
"""The grid's contracts: what they say, and what a wallet tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gridstead.domain.calls import Call
from gridstead.domain.events import ChainEvent
from gridstead.domain.expiry import Timeouts
from gridstead.domain.job import Block, Job, Provider, QueueSizes
from gridstead.domain.sending import Fees, Receipt, Reply, Transaction
from gridstead.errors import TransactionReverted


class Ledger(Protocol):
    """The read side of the grid's contracts. Every answer is pinned to the block it is asked at."""

    def head(self) -> Block:
        """Return the newest block."""
        ...

    def block(self, number: int) -> Block | None:
        """Return the block at that height of the present history, None if the chain is shorter."""
        ...

    def jobs(self, numbers: Iterable[int], *, at_block: Block) -> Mapping[int, Job]:
        """Return the jobs that exist at that block by number; an unknown number is left out."""
        ...

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        """Return the grid's events from a height to a block, both included, in chain order, of that
        block's history.

        A ledger may be made for the claims of one provider; then these are all that it must return.
        """
        ...

    def queue_sizes(self, provider: str, *, at_block: Block) -> QueueSizes:
        """Return how many entries wait in the provider's queues; stale ones may be counted."""
        ...

    def providers(self, addresses: Iterable[str], *, at_block: Block) -> Mapping[str, Provider]:
        """Return the records of these providers; one that never registered is left out."""
        ...

    def waiting_provider(self, address: str, *, at_block: Block) -> Provider | None:
        """Return the provider's record that waits for approval, None if none does."""
        ...

    def timeouts(self, *, at_block: Block) -> Timeouts:
        """Return how long the grid waits for its providers."""
        ...


class Account(Protocol):
    """The write side of the grid's contracts, for one wallet."""

    @property
    def address(self) -> str:
        """The wallet, lower case."""
        ...

    def nonce(self, *, at_block: Block) -> int:
        """Return how many transactions of the wallet the chain holds at that block."""
        ...

    def fees(self) -> Fees:
        """Return what a transaction should offer to be in one of the next blocks."""
        ...

    def receipts(self, hashes: Iterable[str]) -> Mapping[str, Receipt]:
        """Return the receipts of those transactions that are in a block of the present history."""
        ...

    def gas(
        self, batches: Sequence[Sequence[Call]], *, room: int
    ) -> tuple[int | TransactionReverted, ...]:
        """Return for each batch of calls of one kind the gas limit of its transaction.

        Or why the contract would refuse it as a whole now; one without calls is never refused.

        Args:
            batches: Of calls; may be empty.
            room: Gas of a block; what the node must be asked for gets no more, and a claim is of as
                many jobs as fit.
        """
        ...

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction with these calls; without calls, one that only uses up the
        nonce.

        A claim is of as many jobs as fit into the gas, which ``gas`` told.
        """
        ...

    def gas_limit(self, *, at_block: Block) -> int:
        """Return how much gas that block could hold."""
        ...

    def gas_of(self, call: Call) -> int:
        """Return what a call adds to a batch at most; 0 if it is never in one with others."""
        ...

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Give transactions to the node, in this order, and return its answer to each. Safe to
        repeat.
        """
        ...
