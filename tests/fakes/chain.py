# SPDX-License-Identifier: Apache-2.0
"""A chain in memory: blocks, the state after each block, and a pool of transactions.

A subclass implements ``apply`` and ``is_mistaken``. ``apply`` makes a contract call, which changes
the state. ``is_mistaken`` returns whether a call is one that a correct sender never sends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import Self

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
        self._forks = 0
        self._events: list[ChainEvent] = []
        self._state = state
        # For each block: the block, the state after the block, and the events of the block. The
        # index is the block number.
        self._history: list[tuple[Block, State, tuple[ChainEvent, ...]]] = []

    def head(self) -> Block:
        self._raise_if_down()
        return self._history[-1][0]

    def block(self, number: int) -> Block | None:
        self._raise_if_down()
        if not 0 <= number < len(self._history):
            return None
        return self._history[number][0]

    def events(self, *, first: int, end: Block) -> tuple[ChainEvent, ...]:
        self._state_at(end)
        events: list[ChainEvent] = []
        for _, _, block_events in self._history[first : end.number + 1]:
            events += block_events
        return tuple(events)

    def mine(self, count: int = 1) -> Block:
        """Mine blocks with the pending transactions; return the last block."""
        for _ in range(count):
            self._include()
            number = len(self._history)
            block = Block(
                number=number,
                hash=f"0x{self._forks:032x}{number:032x}",
                timestamp=self._next_time(),
            )
            self._history.append((block, self._state.copy(), tuple(self._events)))
            self._events.clear()
        return self._history[-1][0]

    def reorg(self, depth: int, *, length: int | None = None) -> None:
        """Replace the last ``depth`` blocks by ``length`` blocks.

        The events and the state changes of the replaced blocks are lost. ``length`` is ``depth`` by
        default.
        """
        assert 0 < depth < len(self._history)
        del self._history[-depth:]
        self._state = self._history[-1][1].copy()
        self._forks += 1
        self.mine(depth if length is None else length)

    def _include(self) -> None:
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
                block_hash=f"0x{self._forks:032x}{number:032x}",
                succeeded=succeeded,
                skipped=skipped,
            )

    def _apply_all(self, wallet: str, calls: tuple[Call, ...]) -> tuple[bool, dict[int, str]]:
        """Apply calls; return whether the transaction succeeded, and the errors of skipped jobs."""
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
        last = self._history[-1][0].timestamp if self._history else 0
        return max(last + 1, self.clock.now())

    def _state_at(self, block: Block) -> State:
        """Return the state after a block. Raises ChainUnavailable if a reorg removed the block."""
        self._raise_if_down()
        if block.number >= len(self._history) or self._history[block.number][0].hash != block.hash:
            raise ChainUnavailable(
                f"could not read block {block.number}", detail="it is no longer part of the chain"
            )
        return self._history[block.number][1]

    def _raise_if_down(self) -> None:
        if self.down:
            raise ChainUnavailable("could not reach the chain", detail="connection refused")
