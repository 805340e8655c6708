# SPDX-License-Identifier: Apache-2.0
"""Chooses the next call: usually a sensible one, sometimes a random one, and the time before it."""

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
RANDOM_SHARE = 0.2
Play = Callable[[], Call]


class Player:
    """Plays one sequence.

    Args:
        seed: The same seed and the same rules give the same calls.
        model: The model, which the calls change.
        cast: The accounts.
    """

    def __init__(self, seed: int, model: ContractModel, cast: Cast) -> None:
        self._random = Random(seed)
        self._random_calls = RandomCalls(self._random, model, cast)
        parts = (self._random, model, cast, self._random_calls)
        self._plays = _weighted(SensibleCalls(*parts), Keeper(*parts))

    def calls(self) -> Iterator[Call]:
        """Yield calls; each is chosen after the previous call was played."""
        for _ in range(self._random.randint(SHORTEST, LONGEST)):
            if self._random.random() < RANDOM_SHARE:
                call = self._random_calls.call()
            else:
                call = self._sensible()
            yield self._with_wait(call)

    def _sensible(self) -> Call:
        while True:
            (play,) = self._random.choices(list(self._plays), list(self._plays.values()))
            try:
                return play()
            except NothingToDo:
                continue

    def _with_wait(self, call: Call) -> Call:
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
