# SPDX-License-Identifier: Apache-2.0
"""Runs sequences of calls one by one, each on the same new grid."""

from __future__ import annotations

from collections.abc import Callable

from tests.contracts.ledger.chain import Chain
from tests.contracts.ledger.player import Player
from tests.contracts.ledger.replay import Disagreement, Replay
from tests.contracts.ledger.setup import cast, create_grid, set_up
from tests.devnet import CHAIN_ID

from gridstead.adapters.chain.node import Node


class Campaign:
    """A grid that is created once.

    Args:
        node: A new anvil.
        fund: Gives an address coins for gas.

    Attributes:
        replay: Counts the calls, events and errors of all sequences so far.
    """

    def __init__(self, node: Node, *, fund: Callable[[str], None]) -> None:
        self._cast = cast()
        for wallet in self._cast.wallets:
            fund(wallet.address)
        self._chain = Chain(node, CHAIN_ID, self._cast.wallets)
        self._model = create_grid(self._chain, self._cast.admin.address)
        addresses = [wallet.address for wallet in self._cast.wallets]
        self.replay = Replay(self._model, self._chain, addresses)
        for call in set_up(self._model, self._cast):
            self.replay.play(call)
        self.replay.compare_all()
        self._chain.save()
        self._initial = self._model.state.copy(), self._model.block, self._model.now

    def play(self, seed: int) -> None:
        """Play one sequence on the new grid.

        Raises:
            Disagreement: If model and contracts differ; the message has the seed and the calls.
        """
        self._chain.restore()
        state, self._model.block, self._model.now = self._initial
        self._model.state = state.copy()
        played = []
        try:
            for call in Player(seed, self._model, self._cast).calls():
                played.append(call)
                self.replay.play(call)
            self.replay.compare_all()
        except AssertionError as err:
            alone = f"GRIDSTEAD_LEDGER_SEED={seed} GRIDSTEAD_LEDGER_SEQUENCES=1"
            raise Disagreement("\n".join([alone, *map(str, played), str(err)])) from err
