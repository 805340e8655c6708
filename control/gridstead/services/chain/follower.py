# SPDX-License-Identifier: Apache-2.0
"""The follower delivers every event of the chain to a service at least once.

Rule 1: the cursor moves only after the consumer has processed the events, so a crash loses no
event.

Rule 2: after a reorg, the follower goes back to the newest saved block that is still part of the
chain, and delivers the events above that block again.

Rule 3: a consumer may forget what is final. If a reorg may be deeper than the confirmations, the
follower delivers all events again.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from gridstead.domain.chain.events import ChainEvent
from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable
from gridstead.ports import Chain, Cursor

log = structlog.get_logger()

BLOCKS_PER_READ = 1000
# A pruning node keeps the state of the newest 128 blocks. Half of this number is deeper than any
# reorg from which such a node recovers.
STATE_KEPT_BLOCKS = 64


class Follower:
    """Follows the chain's events from a stored position on.

    Args:
        chain: The chain, with the events of the grid.
        cursor: Stores the last block that was read. It must be kept as long as the consumer's
            store.
        first_block: First block to read if the cursor is empty or none of its blocks is on the
            chain.
        confirmations: How many blocks must follow a job's end before the consumer may forget the
            job.
        blocks_per_read: How many blocks one request covers.
    """

    def __init__(
        self,
        chain: Chain,
        cursor: Cursor,
        *,
        first_block: int = 0,
        confirmations: int = STATE_KEPT_BLOCKS,
        blocks_per_read: int = BLOCKS_PER_READ,
    ) -> None:
        self._chain = chain
        self._cursor = cursor
        self._first_block = first_block
        self._confirmations = confirmations
        self._blocks_per_read = blocks_per_read

    def tick(
        self,
        consume: Callable[[tuple[ChainEvent, ...]], None],
        *,
        rewind: Callable[[int], None] = lambda _first: None,
    ) -> Block:
        """Deliver all new events, in chain order, up to the newest block.

        Arguments, result, errors and guarantees are the same as in ``follow``.
        """
        return self.follow(lambda events, _: consume(events), rewind=rewind)

    def follow(
        self,
        consume: Callable[[tuple[ChainEvent, ...], Block], None],
        *,
        rewind: Callable[[int], None] = lambda _first: None,
    ) -> Block:
        """Deliver all new events in chain order, one range of blocks after the other.

        Args:
            consume: Called once for each range that has events, with the events and a block. The
                consumer must read the state of the contracts at this block. The block is the last
                block of the range, or the oldest block whose state every node still has, if that
                block is newer. The state of any newer block is unsafe: if a reorg reverts the
                state, for example the end of a job, the follower does not deliver the events of
                this range again.
            rewind: Called with a block's height before events from this block on are delivered that
                may have been delivered before. The earlier ones may not exist any more.

        Returns:
            The newest block when the events were read.

        Raises:
            ChainUnavailable: If the chain did not answer, or was reorganised. The next tick
                continues after the last range that was delivered.
        """
        head = self._chain.head()
        history = self._cursor.history()
        first = self._common_ancestor(head) + 1
        must_rewind = not history or first <= history[0].number
        # A range ends at the newest final block, so that the cursor saves this block. After a short
        # reorg, the follower goes back to this block.
        newest_final = head.number - self._confirmations
        while first <= head.number:
            max_last = newest_final if first <= newest_final else head.number
            last = min(first + self._blocks_per_read - 1, max_last)
            last_block = head if last == head.number else self._block(last)
            events = self._chain.events(first=first, end=last_block)
            # A reorg between the requests for the last block and for its events may mix two forks.
            if self._block(last).hash != last_block.hash:
                raise ChainUnavailable(
                    "could not read the chain's events", detail="it was reorganised during the read"
                )
            if must_rewind:
                rewind(first)
                must_rewind = False
            if events:
                oldest_with_state = head.number - STATE_KEPT_BLOCKS
                state_block = self._block(max(last, oldest_with_state))
                consume(events, state_block)
            self._cursor.save(last_block)
            first = last + 1
        return head

    def _common_ancestor(self, head: Block) -> int:
        """Return the height of the newest block that was delivered and is still on the chain.

        Returns ``first_block - 1`` if there is no such block, or if a reorg may be deeper than the
        confirmations. In both cases, all events are delivered again.
        """
        history = self._cursor.history()
        is_forked = False
        for saved_block in history:
            if saved_block.number > head.number:
                continue  # a server that lags does not have the block yet
            canonical: Block | None = head
            if saved_block.number != head.number:
                canonical = self._chain.block(saved_block.number)
            if canonical is None or canonical.hash != saved_block.hash:
                is_forked = True
                continue
            lag = history[0].number - head.number
            if not is_forked and lag > self._confirmations:
                raise ChainUnavailable(
                    "could not read the chain's events",
                    detail=f"the server answered with block {head.number}, "
                    f"{lag} blocks before an earlier answer",
                )
            if not is_forked:
                return saved_block.number
            log.warning(
                "chain_reorganised", block=saved_block.number, reason=f"was at {history[0].number}"
            )
            if history[0].number - saved_block.number <= self._confirmations:
                return saved_block.number
            reason = f"the reorg may be deeper than {self._confirmations} blocks"
            log.warning("chain_read_again", block=self._first_block, reason=reason)
            return self._first_block - 1
        if history:
            log.warning("chain_replaced", block=head.number, reason=f"was at {history[0].number}")
        return self._first_block - 1

    def _block(self, number: int) -> Block:
        block = self._chain.block(number)
        if block is None:
            raise ChainUnavailable(
                f"could not read block {number}", detail="the chain has become shorter"
            )
        return block
