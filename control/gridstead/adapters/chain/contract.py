# SPDX-License-Identifier: Apache-2.0
"""A contract at an address: what can be asked of it and what can be sent to it.

The classes of the single contracts, one module each, give both names and types. Calls that only one
generation of the contracts has say so; which generation a grid is of, ``contracts.py`` finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gridstead.adapters.chain.abi import artifact, reverted
from gridstead.adapters.chain.node import EthCall, Node, RpcError
from gridstead.domain.job import Block
from gridstead.errors import ChainUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a transaction does: contract address and data, the gas it can use (None: ask), coins to
    send along (wei).

    What is asked for gets ``least_gas`` at least.
    """

    to: str
    data: str
    gas: int | None
    value: int = 0
    least_gas: int = 0


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract at an address."""

    name: str
    address: str

    def read(self, function: str, *arguments: Any) -> EthCall:  # noqa: ANN401
        """Return the read of a view."""
        return EthCall(
            to=self.address, data=artifact(self.name).functions[function].encode(*arguments)
        )

    def data(self, function: str, *arguments: Any) -> str:  # noqa: ANN401
        """Return the data of a transaction that calls a function."""
        return artifact(self.name).functions[function].encode(*arguments)

    def decode(self, function: str, answer: bytes) -> Any:  # noqa: ANN401
        """Return what a view answered: the value, or a tuple if there are several.

        Raises:
            ChainUnavailable: If nothing answered, as on a fresh chain before its contracts are
                there.
        """
        if not answer:
            raise ChainUnavailable(
                f"could not read {function}", detail=f"there is no contract at {self.address}"
            )
        values = artifact(self.name).functions[function].decode(answer)
        return values[0] if len(values) == 1 else values

    def view(self, kind: Callable[[Any], T], function: str, *arguments: Any) -> ViewCall[T]:  # noqa: ANN401
        """Return a question and what makes a value of its answer."""
        return ViewCall(
            contract=self, function=function, read=self.read(function, *arguments), kind=kind
        )

    def call(self, function: str, *arguments: Any, gas: int | None = None) -> Payload:  # noqa: ANN401
        """Return what a transaction that calls a function does."""
        return Payload(to=self.address, data=self.data(function, *arguments), gas=gas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewCall(Generic[T]):
    """A question to a contract, and what makes a value of its answer."""

    contract: Contract
    function: str
    read: EthCall
    kind: Callable[[Any], T]

    def value(self, answer: bytes) -> T:
        """Return what an answer means."""
        return self.kind(self.contract.decode(self.function, answer))


def ask(node: Node, views: Sequence[ViewCall[T]], *, at_block: Block) -> list[T]:
    """Return what views say at a block that never revert on a chain that is whole.

    Raises:
        ChainUnavailable: One did revert, there was no answer, or the block is not in the chain any
            more.
    """
    answers = node.read([view.read for view in views], at_block=at_block)
    values = []
    for view, answer in zip(views, answers, strict=True):
        if isinstance(answer, RpcError):
            raise ChainUnavailable(
                f"could not read {view.function}", detail=str(reverted(view.function, answer))
            )
        values.append(view.value(answer))
    return values


def job_id(number: int) -> bytes:
    """Return a job's number as the contracts have it."""
    return number.to_bytes(32)
