# SPDX-License-Identifier: Apache-2.0
"""The follower: gives a service every event of the chain at least once, whatever the chain and the
process do.

Rule 1: the cursor moves only after the events that it covers were taken. Rule 2: when the cursor's
block is no longer part of the chain, the follower goes back to the newest saved block that is, and
gives the events above it again.
Rule 3: who takes them forgets what ended and is final; when a reorg may have gone deeper than that,
all is given again.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gridstead.domain.events import ChainEvent
from gridstead.domain.job import Block
from gridstead.errors import ChainUnavailable
from gridstead.ports import Cursor, Ledger

log = structlog.get_logger()

BLOCKS_PER_READ = 1000
# Nodes that prune keep the state of the newest 128 blocks; half of that is deeper than any reorg
# they live through.
STATE_KEPT_BLOCKS = 64


class Follower:
    """Follows the chain's events behind a cursor.

    Args:
        ledger: The chain.
        cursor: How far it has come. Lives as long as what the events are stored in.
        start: First block that is read when the cursor is empty or nothing it knows is left.
        confirmations: Blocks on top of an end after which whoever takes the events may forget it.
        blocks_per_read: How many blocks are asked for at once.
    """

    def __init__(
        self,
        ledger: Ledger,
        cursor: Cursor,
        *,
        start: int = 0,
        confirmations: int = STATE_KEPT_BLOCKS,
        blocks_per_read: int = BLOCKS_PER_READ,
    ) -> None:
        self._ledger = ledger
        self._cursor = cursor
        self._start = start
        self._confirmations = confirmations
        self._blocks_per_read = blocks_per_read

    def tick(self, take: Callable[[tuple[ChainEvent, ...]], None]) -> None:
        """Give all new events, in chain order, up to the newest block; errors and guarantees as in
        ``follow``.
        """
        self.follow(lambda events, _: take(events))

    def follow(self, take: Callable[[tuple[ChainEvent, ...], Block], None]) -> None:
        """Give all new events, in chain order, and the block by which to judge them.

        That is the block up to which they are read, or one so deep that a node still has its state:
        what newer blocks say, such as the end of a job, a reorg may take back without the events
        being given again.

        Args:
            take: Called once per range that has events. When it returns, they are never given
                again, but after a reorg.

        Raises:
            ChainUnavailable: Nothing was lost; the next tick goes on where this one stopped.
        """
        head = self._ledger.head()
        first = self._common_ancestor(head) + 1
        final = (
            head.number - self._confirmations
        )  # saved too: a short reorg after a long read is then known as such
        while first <= head.number:
            last = min(first + self._blocks_per_read - 1, final if first <= final else head.number)
            end = head if last == head.number else self._block(last)
            events = self._ledger.events(first=first, end=end)
            # A reorg may have come between the two answers above; then the events may belong to
            # neither history.
            if self._block(last).hash != end.hash:
                raise ChainUnavailable(
                    "could not read the chain's events", detail="it was reorganised meanwhile"
                )
            if events:
                take(events, self._block(max(last, head.number - STATE_KEPT_BLOCKS)))
            self._cursor.save(end)
            first = last + 1

    def _common_ancestor(self, head: Block) -> int:
        """Return the height up to which everything was taken, still stands, and may be forgotten."""
        history = self._cursor.history()
        is_forked = False
        for saved in history:
            if saved.number > head.number:
                continue  # which a server that lags has not got yet
            present = head if saved.number == head.number else self._ledger.block(saved.number)
            if present is None or present.hash != saved.hash:
                is_forked = True
                continue
            if not is_forked:
                return saved.number
            log.warning(
                "chain_reorganised", block=saved.number, reason=f"was at {history[0].number}"
            )
            if history[0].number - saved.number <= self._confirmations:
                return saved.number
            reason = f"what had {self._confirmations} confirmations may be undone"
            log.warning("chain_read_again", block=self._start, reason=reason)
            return self._start - 1
        if history:
            log.warning("chain_replaced", block=head.number, reason=f"was at {history[0].number}")
        return self._start - 1

    def _block(self, number: int) -> Block:
        block = self._ledger.block(number)
        if block is None:
            raise ChainUnavailable(
                f"could not read block {number}", detail="the chain is shorter now"
            )
        return block
