# SPDX-License-Identifier: Apache-2.0
"""Sequences one after the other, each from the same founded grid."""

from __future__ import annotations

from collections.abc import Callable

from tests.contracts.ledger.chain import Chain
from tests.contracts.ledger.player import Player
from tests.contracts.ledger.replay import Disagreement, Replay
from tests.contracts.ledger.setup import cast, found, set_up
from tests.devnet import CHAIN_ID

from gridstead.adapters.chain.node import Node


class Campaign:
    """A grid, founded once.

    Args:
        node: anvil, fresh.
        fund: Gives an address coins for gas.

    Attributes:
        replay: What was seen in all sequences so far.
    """

    def __init__(self, node: Node, *, fund: Callable[[str], None]) -> None:
        self._cast = cast()
        for one in self._cast.wallets:
            fund(one.address)
        self._chain = Chain(node, CHAIN_ID, self._cast.wallets)
        self._world = found(self._chain, self._cast.admin.address)
        self.replay = Replay(self._world, self._chain, (one.address for one in self._cast.wallets))
        for call in set_up(self._world, self._cast):
            self.replay.play(call)
        self.replay.compare_all()
        self._chain.save()
        self._founded = self._world.state.copy(), self._world.block, self._world.now

    def play(self, seed: int) -> None:
        """Play one sequence on the founded grid.

        Raises:
            Disagreement: Model and contracts differ; the message has the seed and the calls.
        """
        self._chain.restore()
        state, self._world.block, self._world.now = self._founded
        self._world.state = state.copy()
        played = []
        try:
            for call in Player(seed, self._world, self._cast).calls():
                played.append(call)
                self.replay.play(call)
            self.replay.compare_all()
        except AssertionError as err:
            alone = f"GRIDSTEAD_LEDGER_SEED={seed} GRIDSTEAD_LEDGER_SEQUENCES=1"
            raise Disagreement("\n".join([alone, *map(str, played), str(err)])) from err
