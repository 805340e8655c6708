# SPDX-License-Identifier: Apache-2.0
"""The world in which the modelled contracts act: a state, a clock, a caller, the events so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.contracts.ledger.state import State

MAX_UINT = 2**256 - 1


class Refused(Exception):
    """A contract refuses: name and arguments of its error, the arguments as text."""

    def __init__(self, name: str, *arguments: object) -> None:
        super().__init__(name, *arguments)
        self.reason = (name, tuple(str(one) for one in arguments))


def demand(condition: bool, words: str) -> None:  # noqa: FBT001
    """Refuse with a text, as Solidity's require does."""
    if not condition:
        raise Refused("Error", words)


def checked(number: int) -> int:
    """Return a sum or difference that fits a word; else panic as checked arithmetic does."""
    if not 0 <= number <= MAX_UINT:
        raise Refused("Panic", "0x11")
    return number


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """What a contract tells; the values in the order of its ABI."""

    contract: str
    name: str
    values: tuple[Any, ...]


class ContractModel:
    """The modelled contracts' world.

    Args:
        addresses: Of the contracts, by name, lower case.
        chain_id: As signed messages name it.
    """

    def __init__(self, addresses: Mapping[str, str], chain_id: int) -> None:
        self.addresses = addresses
        self.chain_id = chain_id
        self.state = State()
        self.sender = ""
        self.now = 0
        self.block = 0
        self.events: list[LedgerEvent] = []

    @property
    def grid(self) -> str:
        """Address of MetaScheduler, which holds the escrow."""
        return self.addresses["MetaScheduler"]

    def emit(self, contract: str, name: str, *values: Any) -> None:
        """Tell an event."""
        self.events.append(LedgerEvent(contract, name, values))

    def attempt(self, act: Callable[[], object]) -> Refused | None:
        """Act as a whole or not at all; return the refusal, if any."""
        state, told = self.state.copy(), len(self.events)
        try:
            act()
        except Refused as refused:
            self.state = state
            del self.events[told:]
            return refused
        return None
