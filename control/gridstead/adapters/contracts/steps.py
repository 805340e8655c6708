# SPDX-License-Identifier: Apache-2.0
"""The transactions of an administrator as steps, which are shown before they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils.crypto import keccak

from gridstead.adapters.chain.abi import artifact
from gridstead.domain.contracts.administration import Change

# OpenZeppelin's id of the role whose members grant all roles. Every other id is a hash.
DEFAULT_ADMIN_ROLE_ID = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStep:
    """A transaction that has not been sent.

    Attributes:
        title: What is true after the step. A deployment file identifies the step by this title.
        contract: The name of the contract that is called or created.
        to: The contract's address; empty for a creation.
        function: The contract's function; ``constructor`` for a creation.
        arguments: The function's arguments in order, as text.
        data: The transaction's data, 0x and hexadecimal digits.
        nonce: The planned nonce. It changes if another program uses the wallet in the meantime.
        creates: The address of the new contract; empty for a call.
        gas: The node's estimate; None if the estimate depends on an earlier step.
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
    """Return the 32 bytes that identify a role in the contracts."""
    return DEFAULT_ADMIN_ROLE_ID if name == "DEFAULT_ADMIN_ROLE" else keccak(text=name)


def encode_change(change: Change) -> str:
    """Return the data of a change's transaction. Names of roles are converted to role ids."""
    function = artifact(change.contract).functions[change.function]
    values: list[Any] = []
    for input_type, value in zip(function.inputs, change.arguments, strict=True):
        if input_type == "bytes32" and isinstance(value, str):
            values.append(role_id(value))
        else:
            values.append(value)
    return function.encode(*values)


def to_steps(
    changes: Iterable[Change], addresses: Mapping[str, str], *, nonce: int
) -> tuple[TransactionStep, ...]:
    """Return the steps that make the changes, with consecutive nonces.

    Args:
        changes: The changes in the order in which they are sent.
        addresses: The contracts' addresses, by name.
        nonce: The nonce of the first transaction.
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


def filler_step(nonce: int, sender: str) -> TransactionStep:
    """Return a step that uses a nonce, so that the transactions with higher nonces can be mined.

    The step transfers 0 wei from the sender to the sender.
    """
    # Deployment files of earlier releases contain this title. With another title, an interrupted
    # deployment would sign the transaction again without its earlier fees.
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
    """Return a step as JSON. For a creation, the length and the hash replace the data."""
    fields: dict[str, Any] = {
        "title": step.title,
        "contract": step.contract,
        "to": step.to or None,
        "function": step.function,
        "arguments": list(step.arguments),
        "nonce": step.nonce,
        "gas": step.gas,
    }
    if step.creates:
        data = bytes.fromhex(step.data[2:])
        return fields | {
            "creates": step.creates,
            "data_bytes": len(data),
            "data_hash": "0x" + keccak(data).hex(),
        }
    return fields | {"data": step.data}
