# SPDX-License-Identifier: Apache-2.0
"""The compiled contracts: encoding of calls, decoding of answers, events and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from gridstead.adapters.chain.node import RpcError
from gridstead.errors import TransactionReverted, UnexpectedOutput

CONTRACTS = (
    "MetaScheduler",
    "JobRepository",
    "ProviderManager",
    "ProviderJobQueues",
    "Constants",
    "Credit",
)

_ERROR_STRING = bytes.fromhex("08c379a0")
_PANIC = bytes.fromhex("4e487b71")
_OF_PLAIN_QUEUES = ("Empty", "OutOfBounds")  # DeepSquare's queues have these errors, ours do not


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a contract."""

    name: str
    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def encode(self, *arguments: Any) -> str:  # noqa: ANN401
        """Return selector and arguments, 0x and hexadecimal digits."""
        return "0x" + (self.selector + encode(self.inputs, arguments)).hex()

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Return what the function answered; texts as bytes, because anybody may have written them."""
        try:
            return decode([_as_bytes(kind) for kind in self.outputs], data)
        except DecodingError as err:
            raise UnexpectedOutput(self.name, "0x" + data.hex()) from err


@dataclass(frozen=True, slots=True)
class EventType:
    """An event of a contract."""

    name: str
    topic: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    indexed: tuple[bool, ...]

    def decode(self, log: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a log entry by name; texts as bytes."""
        topics = iter(log["topics"][1:])
        plain = [
            _as_bytes(kind)
            for kind, indexed in zip(self.types, self.indexed, strict=True)
            if not indexed
        ]
        try:
            values = iter(decode(plain, bytes.fromhex(log["data"][2:])))
            fields = {}
            for name, kind, indexed in zip(self.names, self.types, self.indexed, strict=True):
                fields[name] = (
                    decode([kind], bytes.fromhex(next(topics)[2:]))[0] if indexed else next(values)
                )
        except (DecodingError, StopIteration) as err:
            raise UnexpectedOutput(self.name, str(log)) from err
        return fields


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract."""

    functions: Mapping[str, Function]
    events: Mapping[str, EventType]
    errors: Mapping[bytes, Function]
    constructor: tuple[str, ...]
    bytecode: str

    def creation(self, *arguments: Any) -> str:  # noqa: ANN401
        """Return the data of the transaction that creates the contract."""
        return self.bytecode + encode(self.constructor, arguments).hex()


@cache
def artifact(name: str) -> Artifact:
    """Return a compiled contract of ours by name."""
    document = json.loads((files("gridstead") / "abi" / f"{name}.json").read_text())
    entries = document["abi"]
    functions = [_function(entry) for entry in entries if entry["type"] == "function"]
    events = [_event(entry) for entry in entries if entry["type"] == "event"]
    errors = [_function(entry) for entry in entries if entry["type"] == "error"]
    constructors = [entry for entry in entries if entry["type"] == "constructor"]
    return Artifact(
        functions={function.name: function for function in functions},
        events={event.name: event for event in events},
        errors={error.selector: error for error in errors},
        constructor=tuple(_type(one) for entry in constructors for one in entry["inputs"]),
        bytecode=document["bytecode"],
    )


def reverted(call: str, error: RpcError) -> TransactionReverted:
    """Return our error for a contract's refusal."""
    name, arguments = (
        reason(bytes.fromhex(error.data[2:])) if error.data else ("unknown", (error.message,))
    )
    return TransactionReverted(call, name, arguments)


def reason(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return name and arguments of the error that revert data hold, decoded over the errors of all
    our contracts.
    """
    selector, arguments = data[:4], data[4:]
    try:
        if selector == _ERROR_STRING:
            return "Error", (text(decode(["bytes"], arguments)[0]),)
        if selector == _PANIC:
            return "Panic", (f"0x{decode(['uint256'], arguments)[0]:02x}",)
        known = _errors().get(selector)
        if known is None:
            return "unknown", ("0x" + data.hex(),)
        return known.name, tuple(str(value) for value in decode(known.inputs, arguments))
    except DecodingError:
        return "unknown", ("0x" + data.hex(),)


def text(data: bytes) -> str:
    """Return a text that a contract holds; what is not UTF-8 is replaced."""
    return data.decode("utf-8", errors="replace")


def _as_bytes(kind: str) -> str:
    # The encodings are the same, but a text that is not UTF-8 would make the decoder refuse the
    # whole answer.
    return kind.replace("string", "bytes")


@cache
def _errors() -> dict[bytes, Function]:
    ours = {
        selector: error for name in CONTRACTS for selector, error in artifact(name).errors.items()
    }
    return ours | {
        (error := _function({"name": name, "inputs": ()})).selector: error
        for name in _OF_PLAIN_QUEUES
    }


def _function(entry: Mapping[str, Any]) -> Function:
    inputs = tuple(_type(one) for one in entry["inputs"])
    outputs = tuple(_type(one) for one in entry.get("outputs", ()))
    selector = keccak(text=f"{entry['name']}({','.join(inputs)})")[:4]
    return Function(name=entry["name"], selector=selector, inputs=inputs, outputs=outputs)


def _event(entry: Mapping[str, Any]) -> EventType:
    inputs = entry["inputs"]
    types = tuple(_type(one) for one in inputs)
    return EventType(
        name=entry["name"],
        topic="0x" + keccak(text=f"{entry['name']}({','.join(types)})").hex(),
        names=tuple(one["name"] for one in inputs),
        types=types,
        indexed=tuple(one["indexed"] for one in inputs),
    )


def _type(parameter: Mapping[str, Any]) -> str:
    kind: str = parameter["type"]
    if not kind.startswith("tuple"):
        return kind
    return (
        f"({','.join(_type(one) for one in parameter['components'])}){kind.removeprefix('tuple')}"
    )
