# SPDX-License-Identifier: Apache-2.0
"""A player chooses the contract calls of a sequence at random.

Most of the calls are sensible: the contracts usually accept them. The remaining calls have random
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from tests.contracts.ledger.administration_calls import AdministrationCalls
from tests.contracts.ledger.calls import Call
from tests.contracts.ledger.model import ContractModel
from tests.contracts.ledger.random_calls import RandomCalls
from tests.contracts.ledger.sensible_calls import NothingToDo, SensibleCalls
from tests.contracts.ledger.setup import Accounts

MIN_CALLS, MAX_CALLS = 30, 40
RANDOM_SHARE = 0.2
DrawCall = Callable[[], Call]


class Player:
    """The source of one sequence of calls.

    Args:
        seed: The seed of the random choices. The same seed yields the same calls.
        model: The model of the contracts. The code that iterates over ``calls`` must execute each
            call on the model before it requests the next call.
        accounts: The accounts that send the calls.
    """

    def __init__(self, seed: int, model: ContractModel, accounts: Accounts) -> None:
        self._random = Random(seed)
        self._random_calls = RandomCalls(self._random, model, accounts)
        arguments = (self._random, model, accounts, self._random_calls)
        self._weights = _call_weights(SensibleCalls(*arguments), AdministrationCalls(*arguments))

    def calls(self) -> Iterator[Call]:
        """Yield calls. The choice of a call depends on the state after the previous call."""
        for _ in range(self._random.randint(MIN_CALLS, MAX_CALLS)):
            if self._random.random() < RANDOM_SHARE:
                call = self._random_calls.call()
            else:
                call = self._sensible_call()
            yield self._with_wait(call)

    def _sensible_call(self) -> Call:
        while True:
            (draw_call,) = self._random.choices(list(self._weights), list(self._weights.values()))
            try:
                return draw_call()
            except NothingToDo:
                continue

    def _with_wait(self, call: Call) -> Call:
        """Return the call with a random wait, unless the call already has a wait."""
        if call.wait or call.blocks > 1:
            return call
        draw = self._random.random()
        if draw < 0.5:
            return replace(call, wait=self._random.randint(0, 5))
        if draw < 0.9:
            return replace(call, wait=self._random.randint(6, 900))
        return replace(
            call, wait=self._random.randint(901, 9000), blocks=self._random.randint(1, 12)
        )


def _call_weights(
    sensible: SensibleCalls, administration: AdministrationCalls
) -> dict[DrawCall, int]:
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
        sensible.end_request: 16,
        sensible.cancel: 2,
        sensible.cancel_claimed: 8,
        sensible.cancel_run: 8,
        sensible.top_up: 14,
        sensible.top_up_delegate: 12,
        sensible.claim_other: 14,
        sensible.refuse: 2,
        sensible.refuse_many: 1,
        sensible.time_out: 1,
        sensible.panic: 1,
        sensible.expire: 3,
        sensible.expire_cancelled: 12,
        sensible.delegate: 1,
        administration.withdraw: 1,
        administration.open_or_close: 1,
        administration.reopen: 4,
        administration.set_constant: 2,
        administration.change_owner: 3,
        administration.accept_ownership: 8,
        administration.change_role: 6,
        administration.change_standing: 3,
        administration.rejoin: 6,
        administration.change_offer: 2,
        administration.set_allowance: 1,
        administration.permit: 2,
        administration.move_credits: 5,
    }
