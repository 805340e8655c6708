# SPDX-License-Identifier: Apache-2.0
"""Chooses the next call: mostly a wise one, now and then a wild one, and how much time passes
before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.keeper import Keeper
from tests.contracts.ledger.model import ContractModel
from tests.contracts.ledger.random_calls import RandomCalls
from tests.contracts.ledger.sensible_calls import NothingToDo, SensibleCalls
from tests.contracts.ledger.setup import Cast

SHORTEST, LONGEST = 30, 40
WILD = 0.2
Play = Callable[[], Call]


class Player:
    """Plays one sequence.

    Args:
        seed: What makes it repeatable: the same seed and the same rules give the same calls.
        world: The model, which the calls change meanwhile.
        cast: Who plays.
    """

    def __init__(self, seed: int, model: ContractModel, cast: Cast) -> None:
        self._random = Random(seed)
        self._wild = RandomCalls(self._random, model, cast)
        parts = (self._random, model, cast, self._wild)
        self._plays = _weighted(SensibleCalls(*parts), Keeper(*parts))

    def calls(self) -> Iterator[Call]:
        """Yield calls, each chosen when those before it were played."""
        for _ in range(self._random.randint(SHORTEST, LONGEST)):
            call = self._wild.call() if self._random.random() < WILD else self._wise()
            yield self._after_a_while(call)

    def _wise(self) -> Call:
        while True:
            (play,) = self._random.choices(list(self._plays), list(self._plays.values()))
            try:
                return play()
            except NothingToDo:
                continue

    def _after_a_while(self, call: Call) -> Call:
        if call.wait or call.blocks > 1:
            return call
        chance = self._random.random()
        if chance < 0.5:
            return replace(call, wait=self._random.randint(0, 5))
        if chance < 0.9:
            return replace(call, wait=self._random.randint(6, 900))
        return replace(
            call, wait=self._random.randint(901, 9000), blocks=self._random.randint(1, 12)
        )


def _weighted(sensible: SensibleCalls, keeper: Keeper) -> dict[Play, int]:
    return {
        sensible.request: 10,
        sensible.request_with_permit: 2,
        sensible.match: 7,
        sensible.match_at_most: 5,
        sensible.match_many: 6,
        sensible.claim: 16,
        sensible.claim_many: 8,
        sensible.start: 18,
        sensible.start_many: 6,
        sensible.settle: 11,
        sensible.settle_by_minutes: 8,
        sensible.settle_many: 4,
        sensible.cancel: 2,
        sensible.cancel_run: 8,
        sensible.top_up: 14,
        sensible.top_up_delegate: 12,
        sensible.take_other: 14,
        sensible.refuse: 2,
        sensible.refuse_many: 1,
        sensible.time_out: 1,
        sensible.panic: 1,
        sensible.expire: 3,
        sensible.expire_cancelled: 12,
        sensible.delegate: 1,
        keeper.withdraw: 1,
        keeper.open_or_close: 1,
        keeper.open: 4,
        keeper.set_constant: 2,
        keeper.hand_over: 3,
        keeper.accept: 8,
        keeper.change_role: 6,
        keeper.administer: 3,
        keeper.rejoin: 6,
        keeper.offer: 2,
        keeper.allow: 1,
        keeper.permit: 2,
        keeper.move: 5,
    }
