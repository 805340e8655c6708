# SPDX-License-Identifier: Apache-2.0
"""A campaign: random sequences of contract calls, each from the same initial state of the grid.

To play a call means to execute it on the contracts and on their model in Python.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.contracts.ledger.chain import Chain
from tests.contracts.ledger.player import Player
from tests.contracts.ledger.replay import Disagreement, Replay
from tests.contracts.ledger.setup import create_accounts, create_grid, set_up
from tests.devnet import CHAIN_ID

from gridstead.adapters.chain.node import Node


class Campaign:
    """A new grid on which sequences of contract calls are played.

    Args:
        node: A new anvil.
        fund: A function that gives an address coins for gas.

    Attributes:
        replay: The counts of the calls, events and errors of all sequences so far.
    """

    def __init__(self, node: Node, *, fund: Callable[[str], None]) -> None:
        self._accounts = create_accounts()
        for wallet in self._accounts.wallets:
            fund(wallet.address)
        self._chain = Chain(node, CHAIN_ID, self._accounts.wallets)
        self._model = create_grid(self._chain, self._accounts.admin.address)
        addresses = [wallet.address for wallet in self._accounts.wallets]
        self.replay = Replay(self._model, self._chain, addresses)
        for call in set_up(self._model, self._accounts):
            self.replay.play(call)
        self.replay.compare_all()
        self._chain.save()
        self._initial_model = self._model.state.copy(), self._model.block, self._model.now

    def play(self, seed: int) -> None:
        """Restore the initial state and play one sequence.

        Raises:
            Disagreement: If model and contracts differ. The message contains the seed and the
                calls.
        """
        self._chain.restore()
        state, self._model.block, self._model.now = self._initial_model
        self._model.state = state.copy()
        played_calls = []
        try:
            for call in Player(seed, self._model, self._accounts).calls():
                played_calls.append(call)
                self.replay.play(call)
            self.replay.compare_all()
        except AssertionError as err:
            # The environment variables with which test_ledger.py plays only this sequence.
            environment = f"GRIDSTEAD_LEDGER_SEED={seed} GRIDSTEAD_LEDGER_SEQUENCES=1"
            raise Disagreement("\n".join([environment, *map(str, played_calls), str(err)])) from err
