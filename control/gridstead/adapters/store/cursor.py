# SPDX-License-Identifier: Apache-2.0
"""Stores the position of a reader of the chain."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete, insert, select

from gridstead.adapters.store.database import Database
from gridstead.adapters.store.schema import CURSOR
from gridstead.domain.jobs.job import Block

HISTORY_BLOCKS = 64


class SqlCursor:
    """Implements port ``Cursor``.

    Args:
        database: The database that stores the position.
        name: The name of the reader. Several readers may share a store.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name

    def load(self) -> Block | None:
        """Return the last block that was read."""
        history = self.history()
        return history[0] if history else None

    def save(self, block: Block) -> None:
        """Store the block."""
        is_own = CURSOR.c.name == self._name
        row = {
            "name": self._name,
            "number": block.number,
            "hash": block.hash,
            "timestamp": block.timestamp,
        }
        with self._database.begin() as connection:
            # After a reorg, the saved blocks at this height and above are not in the chain anymore.
            connection.execute(delete(CURSOR).where(is_own, CURSOR.c.number >= block.number))
            connection.execute(insert(CURSOR), row)
            # The number of the oldest of the last HISTORY_BLOCKS blocks. Older blocks are deleted.
            oldest_kept_query = (
                select(CURSOR.c.number)
                .where(is_own)
                .order_by(CURSOR.c.number.desc())
                .offset(HISTORY_BLOCKS - 1)
                .limit(1)
            )
            oldest_number = connection.execute(oldest_kept_query).scalar()
            if oldest_number is not None:
                connection.execute(delete(CURSOR).where(is_own, CURSOR.c.number < oldest_number))

    def history(self) -> tuple[Block, ...]:
        """Return the last saved blocks, newest first."""
        query = select(CURSOR).where(CURSOR.c.name == self._name).order_by(CURSOR.c.number.desc())
        with self._database.begin() as connection:
            rows = connection.execute(query).all()
        return tuple(map(_to_block, rows))


class VolatileCursor:
    """Implements port ``Cursor`` in memory. So its reader reads all blocks again at each start."""

    def __init__(self) -> None:
        self._history: tuple[Block, ...] = ()

    def load(self) -> Block | None:
        """Return the last block that was read."""
        return self._history[0] if self._history else None

    def save(self, block: Block) -> None:
        """Store the block."""
        lower_blocks = [saved for saved in self._history if saved.number < block.number]
        self._history = (block, *lower_blocks)[:HISTORY_BLOCKS]

    def history(self) -> tuple[Block, ...]:
        """Return the last saved blocks, newest first."""
        return self._history


def _to_block(row: Row[Any]) -> Block:
    return Block(number=row.number, hash=row.hash, timestamp=row.timestamp)
