# SPDX-License-Identifier: Apache-2.0
"""The follower delivers every event of the chain to a service at least once.

Reorgs and crashes lose no event.
Rule 1: the cursor moves only after the consumer has taken the events. Rule 2: if the cursor's block
is no longer part of the chain, the follower goes back to the newest saved block that still is, and
delivers the events above that block again. Rule 3: a consumer may forget what is final. If a reorg
may be deeper than that, the follower delivers all events again.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable
from gridstead.ports import Cursor, Ledger

log = structlog.get_logger()

BLOCKS_PER_READ = 1000
# Pruning nodes keep the state of the newest 128 blocks. Half of that is deeper than any reorg that
# they survive.
STATE_KEPT_BLOCKS = 64


class Follower:
    """Follows the chain's events behind a cursor.

    Args:
        ledger: The chain.
        cursor: The last block that was read. It must live as long as the consumer's store.
        start: First block to read if the cursor is empty or none of its blocks is on the chain.
        confirmations: Blocks on top of a job's end after which the consumer may forget the job.
        blocks_per_read: How many blocks one request covers.
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

    def tick(self, consume: Callable[[tuple[ChainEvent, ...]], None]) -> None:
        """Deliver all new events, in chain order, up to the newest block.

        Errors and guarantees are the same as in ``follow``.
        """
        self.follow(lambda events, _: consume(events))

    def follow(self, consume: Callable[[tuple[ChainEvent, ...], Block], None]) -> None:
        """Deliver all new events, in chain order, each range with the block at which to read state.

        That block is the last block of the range, or a newer one if a node no longer has the state
        of the last block. It is never newer than necessary: a reorg may take back a newer state,
        such as the end of a job, without delivering the events again.

        Args:
            consume: Called once for each range that has events. After it returns, only a reorg
                makes the follower deliver these events again.

        Raises:
            ChainUnavailable: If the chain did not answer. Nothing is lost; the next tick continues
                at the same place.
        """
        head = self._ledger.head()
        first = self._common_ancestor(head) + 1
        # The final block is saved too, so that a short reorg after a long read is recognised.
        final = head.number - self._confirmations
        while first <= head.number:
            last = min(first + self._blocks_per_read - 1, final if first <= final else head.number)
            end = head if last == head.number else self._block(last)
            events = self._ledger.events(first=first, end=end)
            # A reorg between the two requests above may mix the events of two forks.
            if self._block(last).hash != end.hash:
                raise ChainUnavailable(
                    "could not read the chain's events", detail="it was reorganised during the read"
                )
            if events:
                consume(events, self._block(max(last, head.number - STATE_KEPT_BLOCKS)))
            self._cursor.save(end)
            first = last + 1

    def _common_ancestor(self, head: Block) -> int:
        """Return the height of the newest block that was delivered and is still on the chain.

        Return ``start - 1`` if a reorg may be deeper than what the consumer remembers.
        """
        history = self._cursor.history()
        is_forked = False
        for saved in history:
            if saved.number > head.number:
                continue  # a server that lags does not have the block yet
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
            reason = f"the reorg may be deeper than {self._confirmations} blocks"
            log.warning("chain_read_again", block=self._start, reason=reason)
            return self._start - 1
        if history:
            log.warning("chain_replaced", block=head.number, reason=f"was at {history[0].number}")
        return self._start - 1

    def _block(self, number: int) -> Block:
        block = self._ledger.block(number)
        if block is None:
            raise ChainUnavailable(
                f"could not read block {number}", detail="the chain has become shorter"
            )
        return block
