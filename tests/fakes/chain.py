# SPDX-License-Identifier: Apache-2.0
"""A chain in memory: blocks, the state after each block, and a pool of transactions.

A subclass implements ``apply`` and ``is_mistaken``. ``apply`` makes a contract call, which changes
the state. ``is_mistaken`` returns whether a call is one that a correct sender never sends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Self

from tests.fakes.store import FakeClock

from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.jobs.job import Block
from gridstead.domain.transactions.calls import Call
from gridstead.domain.transactions.outbox import Receipt, Transaction
from gridstead.errors import ChainUnavailable, TransactionReverted


@dataclass
class State:
    """The state of the wallets after a block.

    The fields of this class and of its subclasses are dictionaries. Their values are immutable, or
    lists of immutable values.
    """

    nonces: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    receipts: dict[str, Receipt] = field(default_factory=dict)

    def copy(self) -> Self:
        """Return a copy of the state. This is much faster than copy.deepcopy."""
        copies = {}
        for state_field in fields(self):
            values = getattr(self, state_field.name).copy()
            for key, value in values.items():
                if isinstance(value, list):
                    values[key] = value.copy()
            copies[state_field.name] = values
        return type(self)(**copies)


class MinedBlock(NamedTuple):
    """A block, the state after the block, and the events of the block."""

    block: Block
    state: State
    events: tuple[ChainEvent, ...]


class FakeChain:
    """A chain of blocks in memory.

    Attributes:
        down: While it is true, every query raises ChainUnavailable.
        pool: The pending transactions and their calls, by wallet and nonce.
        mistaken_calls: The mined calls for which ``is_mistaken`` returns True.
    """

    def __init__(self, clock: FakeClock, state: State) -> None:
        self.clock = clock
        self.down = False
        self.pool: dict[tuple[str, int], tuple[Transaction, tuple[Call, ...]]] = {}
        self.mistaken_calls: list[Call] = []
        self._reorg_count = 0
        self._events: list[ChainEvent] = []
        self._state = state
        self._history: list[MinedBlock] = []  # The index is the block number.

    def head(self) -> Block:
        self._raise_if_down()
        return self._history[-1].block

    def block(self, number: int) -> Block | None:
        self._raise_if_down()
        if not 0 <= number < len(self._history):
            return None
        return self._history[number].block

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        self._state_at(end)
        events: list[ChainEvent] = []
        for mined_block in self._history[first : end.number + 1]:
            events += mined_block.events
        return tuple(events)

    def mine(self, count: int = 1) -> Block:
        """Mine blocks with the pending transactions. Return the last block."""
        for _ in range(count):
            self._apply_pool()
            number = len(self._history)
            block = Block(
                number=number,
                hash=f"0x{self._reorg_count:032x}{number:032x}",
                timestamp=self._next_time(),
            )
            mined_block = MinedBlock(block, self._state.copy(), tuple(self._events))
            self._history.append(mined_block)
            self._events.clear()
        return self._history[-1].block

    def reorg(self, depth: int, *, length: int | None = None) -> None:
        """Replace the last ``depth`` blocks by ``length`` blocks.

        The events and the state changes of the replaced blocks are lost. ``length`` is ``depth`` by
        default.
        """
        assert 0 < depth < len(self._history)
        del self._history[-depth:]
        self._state = self._history[-1].state.copy()
        self._reorg_count += 1
        self.mine(depth if length is None else length)

    def _apply_pool(self) -> None:
        """Apply the pending transactions that have the next nonce of their wallet."""
        for wallet, nonce in sorted(self.pool):
            if nonce != self._state.nonces[wallet]:
                continue
            transaction, calls = self.pool.pop((wallet, nonce))
            self._state.nonces[wallet] += 1
            succeeded, skipped = self._apply_all(wallet, calls)
            number = len(self._history)
            self._state.receipts[transaction.hash] = Receipt(
                block=number,
                block_hash=f"0x{self._reorg_count:032x}{number:032x}",
                succeeded=succeeded,
                skipped=skipped,
            )

    def _apply_all(self, wallet: str, calls: tuple[Call, ...]) -> tuple[bool, dict[int, str]]:
        """Apply calls. Return whether the transaction succeeded, and the errors of skipped jobs."""
        succeeded = True
        skipped: dict[int, str] = {}
        for call in calls:
            job_key = getattr(call, "job_key", None)
            if self.is_mistaken(call):
                self.mistaken_calls.append(call)
            try:
                self.apply(wallet, call)
            except TransactionReverted as error:
                if job_key is None:
                    succeeded = False
                else:
                    skipped[job_key.job_id] = str(error.detail)
        return succeeded, skipped

    def _next_time(self) -> int:
        last_timestamp = self._history[-1].block.timestamp if self._history else 0
        return max(last_timestamp + 1, self.clock.now())

    def _state_at(self, block: Block) -> State:
        """Return the state after a block. Raises ChainUnavailable if a reorg removed the block."""
        self._raise_if_down()
        if block.number < len(self._history):
            mined_block = self._history[block.number]
            if mined_block.block.hash == block.hash:
                return mined_block.state
        raise ChainUnavailable(
            f"could not read block {block.number}", detail="it is no longer part of the chain"
        )

    def _raise_if_down(self) -> None:
        if self.down:
            raise ChainUnavailable("could not reach the chain", detail="connection refused")
