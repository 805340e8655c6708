# SPDX-License-Identifier: Apache-2.0
"""The ABI of the compiled contracts: encodes calls, and decodes return data, events and errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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

# The selectors of Solidity's own errors, Error(string) and Panic(uint256).
_ERROR_STRING = bytes.fromhex("08c379a0")
_PANIC = bytes.fromhex("4e487b71")
# Errors of the queue library in the contracts of DeepSquare 1.2, from which our contracts are
# derived. Our contracts do not have these errors.
_DEEPSQUARE_QUEUE_ERRORS = ("Empty", "OutOfBounds")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a contract."""

    name: str
    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def encode(self, *arguments: Any) -> str:  # noqa: ANN401
        """Return the selector and the arguments of a call, as 0x and hexadecimal digits."""
        return "0x" + (self.selector + encode(self.inputs, arguments)).hex()

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Return the function's return values.

        Strings are returned as bytes, because any account may have written them and they may not
        be UTF-8.

        Raises:
            UnexpectedOutput: If the data does not have the function's return types.
        """
        try:
            return decode(list(map(_as_bytes, self.outputs)), data)
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
        """Return the fields of a log entry by name. Strings are returned as bytes.

        Raises:
            UnexpectedOutput: If the log entry does not have the event's fields.
        """
        parameters = list(zip(self.names, self.types, self.indexed, strict=True))
        data_types = [
            _as_bytes(abi_type) for _, abi_type, is_indexed in parameters if not is_indexed
        ]
        topics = iter(log["topics"][1:])
        fields = {}
        try:
            values = iter(decode(data_types, bytes.fromhex(log["data"][2:])))
            for name, abi_type, is_indexed in parameters:
                if is_indexed:
                    (fields[name],) = decode([abi_type], bytes.fromhex(next(topics)[2:]))
                else:
                    fields[name] = next(values)
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


def read_document(name: str, release: str = "") -> dict[str, Any]:
    """Return the file that contracts/build-artifacts.py wrote for a contract.

    Args:
        name: The name of the contract.
        release: The version of an earlier release, such as ``2.0.0``; empty for this release.
    """
    folder = files("gridstead") / "abi"
    if release:
        folder /= release
    document: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return document


@cache
def artifact(name: str, release: str = "") -> Artifact:
    """Return one of our compiled contracts by name. ``release`` is that of ``read_document``."""
    document = read_document(name, release)
    functions: dict[str, Function] = {}
    events: dict[str, EventType] = {}
    errors: dict[bytes, Function] = {}
    constructor: tuple[str, ...] = ()
    for entry in document["abi"]:
        match entry["type"]:
            case "function":
                functions[entry["name"]] = _function(entry)
            case "event":
                events[entry["name"]] = _event(entry)
            case "error":
                error = _function(entry)
                errors[error.selector] = error
            case "constructor":
                constructor = _types(entry["inputs"])
    return Artifact(
        functions=functions,
        events=events,
        errors=errors,
        constructor=constructor,
        bytecode=document["bytecode"],
    )


def reverted(call: str, error: RpcError) -> TransactionReverted:
    """Return the error for a call that reverted.

    Args:
        call: The name of the called function.
        error: The node's answer.
    """
    if not error.data:
        return TransactionReverted(call, "unknown", (error.message,))
    name, arguments = reason(bytes.fromhex(error.data[2:]))
    return TransactionReverted(call, name, arguments)


def reason(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the name and the arguments of the error in revert data.

    The name is ``unknown`` if the error is neither one of the contracts' errors nor one of
    Solidity's own errors.
    """
    selector, arguments = data[:4], data[4:]
    try:
        if selector == _ERROR_STRING:
            return "Error", (text(decode(["bytes"], arguments)[0]),)
        if selector == _PANIC:
            return "Panic", (f"0x{decode(['uint256'], arguments)[0]:02x}",)
        error = _errors().get(selector)
        if error is None:
            return "unknown", ("0x" + data.hex(),)
        return error.name, tuple(map(str, decode(error.inputs, arguments)))
    except DecodingError:
        return "unknown", ("0x" + data.hex(),)


def text(data: bytes) -> str:
    """Return the text of a contract's string. Bytes that are not UTF-8 are replaced."""
    return data.decode("utf-8", errors="replace")


def _as_bytes(abi_type: str) -> str:
    # The types string and bytes have the same encoding. Strings are decoded as bytes, because the
    # decoder refuses a whole answer if a string in it is not UTF-8.
    return abi_type.replace("string", "bytes")


@cache
def _errors() -> dict[bytes, Function]:
    errors: dict[bytes, Function] = {}
    for name in CONTRACTS:
        errors |= artifact(name).errors
    for name in _DEEPSQUARE_QUEUE_ERRORS:
        error = _function({"name": name, "inputs": ()})
        errors[error.selector] = error
    return errors


def _function(entry: Mapping[str, Any]) -> Function:
    inputs = _types(entry["inputs"])
    outputs = _types(entry.get("outputs", ()))
    selector = keccak(text=f"{entry['name']}({','.join(inputs)})")[:4]
    return Function(name=entry["name"], selector=selector, inputs=inputs, outputs=outputs)


def _event(entry: Mapping[str, Any]) -> EventType:
    inputs = entry["inputs"]
    types = _types(inputs)
    return EventType(
        name=entry["name"],
        topic="0x" + keccak(text=f"{entry['name']}({','.join(types)})").hex(),
        names=tuple(parameter["name"] for parameter in inputs),
        types=types,
        indexed=tuple(parameter["indexed"] for parameter in inputs),
    )


def _types(parameters: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(map(_type, parameters))


def _type(parameter: Mapping[str, Any]) -> str:
    abi_type: str = parameter["type"]
    if not abi_type.startswith("tuple"):
        return abi_type
    components = ",".join(_types(parameter["components"]))
    array_suffix = abi_type.removeprefix("tuple")
    return f"({components}){array_suffix}"
