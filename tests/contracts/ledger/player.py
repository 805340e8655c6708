# SPDX-License-Identifier: Apache-2.0
"""Chooses the next call: mostly a wise one, now and then a wild one, and how much time passes before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.founding import Cast
from tests.contracts.ledger.keeper import Keeper
from tests.contracts.ledger.wild import Wild
from tests.contracts.ledger.wise import NothingToDo, Wise
from tests.contracts.ledger.world import World

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

    def __init__(self, seed: int, world: World, cast: Cast) -> None:
        self._random = Random(seed)
        self._wild = Wild(self._random, world, cast)
        parts = (self._random, world, cast, self._wild)
        self._plays = _weighted(Wise(*parts), Keeper(*parts))

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
        return replace(call, wait=self._random.randint(901, 9000), blocks=self._random.randint(1, 12))


def _weighted(wise: Wise, keeper: Keeper) -> dict[Play, int]:
    return {
        wise.request: 10,
        wise.request_with_permit: 2,
        wise.match: 7,
        wise.match_at_most: 5,
        wise.match_many: 6,
        wise.claim: 16,
        wise.claim_many: 8,
        wise.start: 18,
        wise.start_many: 6,
        wise.settle: 11,
        wise.settle_by_minutes: 8,
        wise.settle_many: 4,
        wise.cancel: 2,
        wise.cancel_run: 8,
        wise.top_up: 14,
        wise.top_up_delegate: 12,
        wise.take_other: 14,
        wise.refuse: 2,
        wise.refuse_many: 1,
        wise.time_out: 1,
        wise.panic: 1,
        wise.expire: 3,
        wise.expire_cancelled: 12,
        wise.delegate: 1,
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
