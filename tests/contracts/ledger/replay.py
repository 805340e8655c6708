# SPDX-License-Identifier: Apache-2.0
"""Executes contract calls on the model and on the chain, and compares all visible results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from tests.contracts.ledger.calls import Call, describe
from tests.contracts.ledger.chain import Chain, MinedCall
from tests.contracts.ledger.model import ContractModel, LedgerEvent
from tests.contracts.ledger.views import View, frequent_views, other_views, to_wire


class Disagreement(AssertionError):
    """The model and the contracts gave different results."""


class Replay:
    """Executes each contract call on the model and on the chain, and compares the results.

    Args:
        model: The model of the contracts. Its state must equal the current state of the chain.
        chain: The chain with the deployed contracts.
        accounts: The addresses of accounts. Views (functions that read the state) are called for
            these accounts.

    Attributes:
        refusals: The count of each error, by name and arguments, including errors of batch
            elements.
        events: The count of each event, by contract and name.
        transitions: The count of each change of a job's state, by old and new state.
        called: The count of calls of each function, by contract and function.
        accepted: The count of successful calls of each function.
    """

    def __init__(self, model: ContractModel, chain: Chain, accounts: Iterable[str]) -> None:
        self.model = model
        self.chain = chain
        self.accounts = tuple(accounts)
        self.refusals: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.events: Counter[tuple[str, str]] = Counter()
        self.transitions: Counter[tuple[int, int]] = Counter()
        self.called: Counter[tuple[str, str]] = Counter()
        self.accepted: Counter[tuple[str, str]] = Counter()

    @property
    def calls(self) -> int:
        """The number of calls that were executed."""
        return self.called.total()

    def play(self, call: Call) -> None:
        """Execute one call on the model and on the chain.

        Raises:
            Disagreement: If the contracts and the model differ.
        """
        refusal = call.play(self.model)
        mined = self.chain.send(call, time=self.model.now)
        _require_equal(
            "block and time", (self.model.block, self.model.now), (mined.block, mined.time)
        )
        _require_equal("errors", refusal, mined.reason)
        expected_events = map(_comparable, self.model.events)
        for expected, emitted in zip_longest(expected_events, map(_comparable, mined.events)):
            _require_equal("events", expected, emitted)
        views = list(frequent_views(self.model, self.accounts))
        if call.contract != "MetaScheduler":
            views += other_views(self.model, self.accounts)
        self.compare(views)
        self._count(call, mined)

    def compare_all(self) -> None:
        """Compare the results of all views."""
        views = list(frequent_views(self.model, self.accounts))
        views += other_views(self.model, self.accounts)
        self.compare(views)

    def compare(self, views: list[View]) -> None:
        """Call the views on the chain and compare the results with those of the model."""
        for view, actual in zip(views, self.chain.read(views), strict=True):
            _require_equal(
                f"{view.contract}.{view.function}{describe(view.arguments)}", view.expected, actual
            )

    def _count(self, call: Call, mined: MinedCall) -> None:
        self.called[call.contract, call.function] += 1
        if mined.reason is None:
            self.accepted[call.contract, call.function] += 1
        else:
            self.refusals[mined.reason] += 1
        for event in mined.events:
            self.events[event.contract, event.name] += 1
            if event.name == "JobTransitionEvent":
                self.transitions[event.values[1:]] += 1
            if event.name == "BatchElementSkipped":
                self.refusals[event.values[1]] += 1


def _require_equal(subject: str, model: Any, contracts: Any) -> None:
    if model != contracts:
        raise Disagreement(
            f"{subject} differ\n  model:     {describe(model)}\n  contracts: {describe(contracts)}"
        )


def _comparable(event: LedgerEvent) -> tuple[Any, ...]:
    return event.contract, event.name, *to_wire(event.values)
