# SPDX-License-Identifier: Apache-2.0
"""Transactions of an administrator, as they are shown before they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import artifact
from gridstead.domain.administration import Change

NO_ROLE = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStep:
    """A transaction that is yet to be sent.

    Attributes:
        title: What is true afterwards; the name of the step in a deployment file.
        contract: Name of the contract that is called or created.
        to: Its address; empty for a creation.
        function: Its function; ``constructor`` for a creation.
        arguments: In order, as text.
        data: What the transaction carries, 0x and hexadecimal digits.
        nonce: Its place among the sender's transactions, if no other program sends some meanwhile.
        creates: The address of the new contract; empty for a call.
        gas: What the node thinks it takes; None if that depends on a step before.
    """

    title: str
    contract: str
    to: str
    function: str
    arguments: tuple[str, ...]
    data: str
    nonce: int
    creates: str = ""
    gas: int | None = None


def role_id(name: str) -> bytes:
    """Return the 32 bytes that stand for a role in the contracts."""
    return NO_ROLE if name == "DEFAULT_ADMIN_ROLE" else keccak(text=name)


def encode_change(change: Change) -> str:
    """Return the data of a change's transaction; a role is given by its name."""
    function = artifact(change.contract).functions[change.function]
    values = [
        role_id(value) if kind == "bytes32" and isinstance(value, str) else value
        for kind, value in zip(function.inputs, change.arguments, strict=True)
    ]
    return function.encode(*values)


def to_steps(
    changes: Iterable[Change], addresses: Mapping[str, str], *, nonce: int
) -> tuple[TransactionStep, ...]:
    """Return the transactions of changes, from a nonce on.

    Args:
        changes: In the order in which they are sent.
        addresses: Of the contracts, by name.
        nonce: Of the first.
    """
    return tuple(
        TransactionStep(
            title=change.title,
            contract=change.contract,
            to=addresses[change.contract],
            function=change.function,
            arguments=tuple(map(str, change.arguments)),
            data=encode_change(change),
            nonce=nonce + offset,
        )
        for offset, change in enumerate(changes)
    )


def filling(nonce: int, sender: str) -> TransactionStep:
    """Return a transaction that does nothing but use a nonce up: a transfer of no coins to the
    sender itself.
    """
    title = f"nonce {nonce} is used, which nothing else waits with"
    return TransactionStep(
        title=title,
        contract="",
        to=sender,
        function="transfer",
        arguments=(),
        data="0x",
        nonce=nonce,
    )


def to_json(step: TransactionStep) -> dict[str, Any]:
    """Return a step for machines; the code of a creation is told by its hash, it is in this
    release.
    """
    told: dict[str, Any] = {"title": step.title, "contract": step.contract, "to": step.to or None}
    told |= {
        "function": step.function,
        "arguments": list(step.arguments),
        "nonce": step.nonce,
        "gas": step.gas,
    }
    if step.creates:
        data = bytes.fromhex(step.data[2:])
        return told | {
            "creates": step.creates,
            "data_bytes": len(data),
            "data_hash": "0x" + keccak(data).hex(),
        }
    return told | {"data": step.data}
