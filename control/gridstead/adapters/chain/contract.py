# SPDX-License-Identifier: Apache-2.0
"""A contract at an address: encodes calls of its views and payloads of transactions.

Each contract has a class with a typed method for each function. A grid has either Gridstead's
contracts ("our contracts") or the contracts of DeepSquare 1.2 ("plain DeepSquare"), from which ours
are derived. A function that only our contracts have is marked "ours only". ``contracts.py`` detects
which contracts a grid has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gridstead.adapters.chain.abi import artifact, reverted
from gridstead.adapters.chain.node import EthCall, Node, RpcError
from gridstead.domain.jobs.job import Block
from gridstead.errors import ChainUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The recipient, data and value of a transaction.

    Attributes:
        to: The contract's address; empty to create a contract.
        data: 0x and hexadecimal digits.
        gas: The gas limit; None if the node must estimate it.
        value: The coins to transfer, in wei.
        min_gas: The gas limit to use if the node's estimate is lower.
    """

    to: str
    data: str
    gas: int | None
    value: int = 0
    min_gas: int = 0


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract at an address."""

    name: str
    address: str

    def read(self, function: str, *arguments: Any) -> EthCall:  # noqa: ANN401
        """Return the encoded call of a view."""
        return {"to": self.address, "data": self.data(function, *arguments)}

    def data(self, function: str, *arguments: Any) -> str:  # noqa: ANN401
        """Return the encoded call of a function: its selector and arguments."""
        return artifact(self.name).functions[function].encode(*arguments)

    def decode(self, function: str, answer: bytes) -> Any:  # noqa: ANN401
        """Return the decoded result of a view. It is a tuple if the view returns several values.

        Raises:
            ChainUnavailable: If the address has no contract, for example because the chain is new.
        """
        if not answer:
            raise ChainUnavailable(
                f"could not read {function}", detail=f"there is no contract at {self.address}"
            )
        values = artifact(self.name).functions[function].decode(answer)
        return values[0] if len(values) == 1 else values

    def view(
        self,
        convert: Callable[[Any], T],
        function: str,
        *arguments: Any,  # noqa: ANN401
    ) -> ViewCall[T]:
        """Return a call of a view. ``convert`` converts the view's result."""
        return ViewCall(
            contract=self, function=function, read=self.read(function, *arguments), convert=convert
        )

    def call(
        self,
        function: str,
        *arguments: Any,  # noqa: ANN401
        gas: int | None = None,
    ) -> Payload:
        """Return the payload of a transaction that calls a function."""
        return Payload(to=self.address, data=self.data(function, *arguments), gas=gas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewCall(Generic[T]):
    """A call of a view, and the function that converts the view's result."""

    contract: Contract
    function: str
    read: EthCall
    convert: Callable[[Any], T]

    def value(self, answer: bytes) -> T:
        """Decode the node's answer and return the converted result."""
        return self.convert(self.contract.decode(self.function, answer))


def ask(node: Node, views: Sequence[ViewCall[T]], *, at_block: Block) -> list[T]:
    """Return the results of views at a block, in the order of ``views``.

    Call this function only with views that never revert. A revert therefore counts as a failure of
    the node.

    Raises:
        ChainUnavailable: If a view reverts, the node does not answer, or the block is no longer in
            the chain.
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


def to_bytes32(number: int) -> bytes:
    """Return a job's number as bytes32, the type that the contracts use."""
    return number.to_bytes(32)
