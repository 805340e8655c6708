# SPDX-License-Identifier: Apache-2.0
"""The ABI of the compiled contracts: encodes calls, and decodes return data, events and errors.

Selectors, topics and types come from web3.py. Values are encoded and decoded with the codec of
web3.py, which is eth-abi. The contract objects of web3.py are not used: they check and convert each
value, which takes ten times as long, and they refuse an answer with a string that is not UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Self

from eth_abi.abi import encode
from eth_abi.exceptions import DecodingError
from web3 import utils

from gridstead.adapters.chain.decoding import decode
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
# Errors of Solidity itself, and errors of the queue library in the contracts of DeepSquare 1.2,
# from which our contracts are derived.
_OTHER_ERRORS = {"Error": ["string"], "Panic": ["uint256"], "Empty": [], "OutOfBounds": []}


@dataclass(frozen=True, slots=True)
class Function:
    """A function or an error of a contract."""

    name: str
    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, entry: Any) -> Self:  # noqa: ANN401
        """Return the function or error of an entry of an ABI."""
        selector = utils.function_abi_to_4byte_selector(entry)
        outputs = utils.get_abi_output_types(entry) if entry["type"] == "function" else ()
        inputs = utils.get_abi_input_types(entry)
        return cls(entry["name"], selector, tuple(inputs), tuple(map(_as_bytes, outputs)))

    def encode(self, *arguments: Any) -> str:  # noqa: ANN401
        """Return the selector and the arguments of a call, as 0x and hexadecimal digits."""
        return "0x" + (self.selector + encode(self.inputs, arguments)).hex()

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Return the function's return values. Strings are returned as bytes.

        Raises:
            UnexpectedOutput: If the data does not have the function's return types.
        """
        try:
            return decode(self.outputs, data)
        except DecodingError as err:
            raise UnexpectedOutput(self.name, "0x" + data.hex()) from err


@dataclass(frozen=True, slots=True)
class EventType:
    """An event of a contract. ``names`` has the indexed fields first, then the other fields."""

    name: str
    topic: str
    names: tuple[str, ...]
    indexed_types: tuple[str, ...]
    data_types: tuple[str, ...]

    @classmethod
    def of(cls, entry: Any) -> Self:  # noqa: ANN401
        """Return the event of an entry of an ABI."""
        fields = list(zip(entry["inputs"], utils.get_abi_input_types(entry), strict=True))
        indexed_fields = [(field, abi_type) for field, abi_type in fields if field["indexed"]]
        data_fields = [(field, abi_type) for field, abi_type in fields if not field["indexed"]]
        return cls(
            name=entry["name"],
            topic="0x" + utils.event_abi_to_log_topic(entry).hex(),
            names=tuple(field["name"] for field, _ in indexed_fields + data_fields),
            indexed_types=tuple(abi_type for _, abi_type in indexed_fields),
            data_types=tuple(_as_bytes(abi_type) for _, abi_type in data_fields),
        )

    def decode(self, log: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a log entry by name. Strings are returned as bytes.

        Raises:
            UnexpectedOutput: If the log entry does not have the event's fields.
        """
        try:
            topics = "".join(topic.removeprefix("0x") for topic in log["topics"][1:])
            values = decode(self.indexed_types, bytes.fromhex(topics))
            values += decode(self.data_types, bytes.fromhex(log["data"].removeprefix("0x")))
        except (DecodingError, ValueError) as err:
            raise UnexpectedOutput(self.name, str(log)) from err
        return dict(zip(self.names, values, strict=True))


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract. Functions and events by name, errors by selector."""

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
    abi = document["abi"]
    functions = map(Function.of, utils.filter_abi_by_type("function", abi))
    events = map(EventType.of, utils.filter_abi_by_type("event", abi))
    errors = map(Function.of, utils.filter_abi_by_type("error", abi))
    constructors = utils.filter_abi_by_type("constructor", abi)
    constructor_types: tuple[str, ...] = ()
    if constructors:
        constructor_types = tuple(utils.get_abi_input_types(constructors[0]))
    return Artifact(
        functions={function.name: function for function in functions},
        events={event.name: event for event in events},
        errors={error.selector: error for error in errors},
        constructor=constructor_types,
        bytecode=document["bytecode"],
    )


def reverted(call: str, error: RpcError) -> TransactionReverted:
    """Return the error for a call that reverted. ``call`` is the name of the called function."""
    if not error.data:
        return TransactionReverted(call, "unknown", (error.message,))
    return TransactionReverted(call, *reason(bytes.fromhex(error.data[2:])))


def reason(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the name and the arguments of the error in revert data.

    The name is ``unknown`` if the error is neither one of the contracts' errors nor one of
    Solidity's own errors.
    """
    unknown_error = "unknown", ("0x" + data.hex(),)
    error = _errors().get(data[:4])
    if error is None:
        return unknown_error
    types = tuple(map(_as_bytes, error.inputs))
    try:
        values = decode(types, data[4:])
    except DecodingError:
        return unknown_error
    if error.name == "Error":
        return error.name, (text(values[0]),)
    if error.name == "Panic":
        return error.name, (f"0x{values[0]:02x}",)
    return error.name, tuple(map(str, values))


def text(data: bytes) -> str:
    """Return the text of a contract's string. Bytes that are not UTF-8 are replaced."""
    return data.decode("utf-8", errors="replace")


def _as_bytes(abi_type: str) -> str:
    # The types string and bytes have the same encoding. Strings are decoded as bytes, because any
    # account may have written them, and the decoder refuses an answer that is not UTF-8.
    return abi_type.replace("string", "bytes")


@cache
def _errors() -> dict[bytes, Function]:
    errors: dict[bytes, Function] = {}
    for name in CONTRACTS:
        errors |= artifact(name).errors
    for name, types in _OTHER_ERRORS.items():
        inputs = [{"name": "", "type": abi_type} for abi_type in types]
        error = Function.of({"type": "error", "name": name, "inputs": inputs})
        errors[error.selector] = error
    return errors
