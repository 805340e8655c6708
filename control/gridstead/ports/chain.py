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


class Chain(Protocol):
    """Reads the blocks of the chain and the events of the grid."""

    def head(self) -> Block:
        """Return the newest block."""
        ...

    def block(self, number: int) -> Block | None:
        """Return the canonical block at a height. Returns None if the chain is shorter."""
        ...

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        """Return the grid's events from height ``first`` to block ``end``, in the chain's order.

        Both blocks are included. All events are on the fork of the end block. A ledger that is
        limited to the claims of one provider may omit all other events.
        """
        ...


class Ledger(Chain, Protocol):
    """Reads the grid's contracts. Every answer is the state at one block."""

    @property
    def has_all_change_events(self) -> bool:
        """Whether ``events`` has an event for each change of a job or of an approved provider.

        If false, some changes have no event or get one late. A service that remembers jobs or
        providers must then also read those again about which no event was delivered.
        """
        ...

    def jobs(self, job_ids: Iterable[JobId], *, at_block: Block) -> Mapping[JobId, Job]:
        """Return those of the jobs that exist at a block and belong to the grid."""
        ...

    def queue_sizes(self, provider: str, *, at_block: Block) -> QueueSizes:
        """Return the sizes of a provider's queues. The sizes may include stale entries."""
        ...

    def claimable_jobs(self, provider: str, *, limit: int, at_block: Block) -> tuple[Job, ...]:
        """Return the first jobs that a provider's next claims would claim, in this order.

        Returns an empty tuple if the contracts do not list the jobs of a queue.
        """
        ...

    def providers(self, addresses: Iterable[str], *, at_block: Block) -> Mapping[str, Provider]:
        """Return the records of these providers. Providers that never registered are omitted.

        For a provider without an approved record, the result is the record that waits for approval.
        Anyone may register, so a service must not call this for all providers that ever registered.
        """
        ...

    def approved_providers(
        self, addresses: Iterable[str], *, at_block: Block
    ) -> Mapping[str, Provider]:
        """Return the approved records of these providers.

        Providers without an approved record are omitted.

        Bans are not read. Neither are records that wait for approval. Therefore ``is_waiting`` and
        ``is_banned`` are always False in the result. Only ``is_joined`` shows a ban: it is False.
        """
        ...

    def waiting_provider(self, address: str, *, at_block: Block) -> Provider | None:
        """Return the provider's record that waits for approval. None if no record waits."""
        ...

    def timeouts(self, *, at_block: Block) -> Timeouts:
        """Return the timeouts of the grid at a block."""
        ...


class AccountState(Protocol):
    """Reads the state of one wallet, and the values that its transactions depend on."""

    @property
    def address(self) -> str:
        """The address of the wallet, lower case."""
        ...

    def nonce(self, *, at_block: Block) -> int:
        """Return the next nonce of the wallet at a block."""
        ...

    def receipts(self, hashes: Iterable[str]) -> Mapping[str, Receipt]:
        """Return the receipts by hash. Transactions in no canonical block are omitted."""
        ...

    def fees(self) -> Fees:
        """Return fees that are high enough for one of the next blocks."""
        ...

    def gas_limit(self, *, at_block: Block) -> int:
        """Return the gas limit of a block."""
        ...

    def gas_of(self, call: Call) -> int:
        """Return the maximum gas that a call adds to a batch.

        Returns 0 if the call is never in a batch with other calls.
        """
        ...


class Account(AccountState, Protocol):
    """Signs and sends the transactions of one wallet."""

    def gas(
        self, batches: Sequence[Sequence[Call]], *, available_gas: int
    ) -> tuple[int | TransactionReverted, ...]:
        """Return, for each batch, the gas limit of a transaction with the batch's calls.

        If the contract would refuse the whole batch, the result contains the revert instead. A
        batch without calls is never refused.

        Args:
            batches: Batches of calls of one type. A batch may be empty.
            available_gas: The gas limit of a block. No result is higher. A transaction that claims
                jobs claims as many as this gas allows.
        """
        ...

    def sign(
        self, calls: Sequence[Call], *, entry_ids: tuple[int, ...], nonce: int, gas: int, fees: Fees
    ) -> Transaction:
        """Return a signed transaction with these calls.

        A transaction without calls only uses the nonce. A transaction that claims jobs claims as
        many as ``gas`` allows.
        """
        ...

    def send(self, transactions: Sequence[Transaction]) -> tuple[Reply, ...]:
        """Send transactions to the node in this order, and return the answers of the node.

        It is safe to send a transaction again.
        """
        ...
