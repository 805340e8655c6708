# SPDX-License-Identifier: Apache-2.0
"""The environment of the modelled contracts: state, clock, caller and emitted events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.contracts.ledger.state import State

MAX_UINT = 2**256 - 1


class Refused(Exception):
    """A contract refuses a call. ``reason`` is the name of the error and its arguments as text."""

    def __init__(self, name: str, *arguments: object) -> None:
        super().__init__(name, *arguments)
        self.reason = (name, tuple(map(str, arguments)))


def require(condition: bool, message: str) -> None:  # noqa: FBT001
    """Refuse the call with a message if the condition is false, as Solidity's require does."""
    if not condition:
        raise Refused("Error", message)


def checked_uint256(number: int) -> int:
    """Return the number if it fits into a uint256. Else refuse the call with panic 0x11."""
    if not 0 <= number <= MAX_UINT:
        raise Refused("Panic", "0x11")
    return number


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """An event of a contract. The values are in the order of the ABI."""

    contract: str
    name: str
    values: tuple[Any, ...]


class ContractModel:
    """The environment of the modelled contracts.

    Args:
        addresses: The contracts' addresses in lower case, by the name of the contract.
        chain_id: The chain id in signed messages.
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
        """The address of MetaScheduler, which holds the escrow."""
        return self.addresses["MetaScheduler"]

    def emit(self, contract: str, name: str, *values: Any) -> None:
        """Emit an event."""
        self.events.append(LedgerEvent(contract, name, values))

    def attempt(self, action: Callable[[], object]) -> Refused | None:
        """Run an action. If the action is refused, undo its changes and return the refusal."""
        state_before, event_count = self.state.copy(), len(self.events)
        try:
            action()
        except Refused as refused:
            self.state = state_before
            del self.events[event_count:]
            return refused
        return None
