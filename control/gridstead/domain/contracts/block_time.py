# SPDX-License-Identifier: Apache-2.0
"""The time between the blocks of a chain, which converts seconds to blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTime:
    """The time that a chain took for its newest blocks.

    Attributes:
        blocks: The number of blocks, at least 1.
        seconds: The time from the first to the last of these blocks, at least 1.
    """

    blocks: int
    seconds: int

    def blocks_ceil(self, duration_s: int) -> int:
        """Return how many blocks take at least this time."""
        return -(-duration_s * self.blocks // self.seconds)

    def seconds_floor(self, blocks: int) -> int:
        """Return how long this number of blocks takes."""
        return blocks * self.seconds // self.blocks
