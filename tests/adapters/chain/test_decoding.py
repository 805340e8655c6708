# SPDX-License-Identifier: Apache-2.0
"""Tests that the decoder returns the same values as eth-abi, for all types of the contracts."""

from __future__ import annotations

from contextlib import suppress

import eth_abi
import pytest
from eth_abi.exceptions import DecodingError
from hypothesis import given
from hypothesis import strategies as st

from gridstead.adapters.chain.abi import CONTRACTS, artifact
from gridstead.adapters.chain.decoding import decode

WORD_BYTES = 32


def contract_types():
    """Return the types of each value that the contracts return or log."""
    types = set()
    for name in CONTRACTS:
        contract = artifact(name)
        for function in contract.functions.values():
            types.update(function.outputs)
        for event in contract.events.values():
            types.update(event.indexed_types + event.data_types)
    return sorted(types)


@st.composite
def encoded_values(draw):
    """Return some types of the contracts, and encoded values of these types."""
    types = tuple(draw(st.lists(st.sampled_from(contract_types()), max_size=4)))
    values = [draw(eth_abi_value(each)) for each in types]
    return types, eth_abi.encode(types, values)


def eth_abi_value(abi_type):
    """Return a strategy for values of a type."""
    if abi_type.endswith("[]"):
        return st.lists(eth_abi_value(abi_type[:-2]), max_size=3)
    if abi_type.startswith("("):
        parts = eth_abi.grammar.parse(abi_type).components
        return st.tuples(*[eth_abi_value(part.to_type_str()) for part in parts])
    if abi_type.startswith("uint"):
        return st.integers(0, 2 ** int(abi_type[4:]) - 1)
    if abi_type.startswith("int"):
        limit = 2 ** (int(abi_type[3:]) - 1)
        return st.integers(-limit, limit - 1)
    if abi_type == "bytes":
        return st.binary(max_size=70)
    if abi_type.startswith("bytes"):
        size = int(abi_type[5:])
        return st.binary(min_size=size, max_size=size)
    if abi_type == "address":
        return st.binary(min_size=20, max_size=20).map(lambda data: "0x" + data.hex())
    assert abi_type == "bool", abi_type
    return st.booleans()


@given(encoded_values())
def test_values_are_those_of_eth_abi(example):
    types, data = example

    assert decode(types, data) == eth_abi.decode(types, data)


@given(encoded_values(), st.data())
def test_damaged_data_is_decoded_as_eth_abi_does_or_refused(example, source):
    types, data = example
    index = source.draw(st.integers(0, len(data) // WORD_BYTES))
    word = source.draw(st.binary(max_size=WORD_BYTES))
    start = WORD_BYTES * index
    data = data[:start] + word + data[start + len(word) :]

    expected = None
    with suppress(DecodingError, OverflowError):
        expected = eth_abi.decode(types, data)
    try:
        values = decode(types, data)
    except DecodingError:
        assert expected is None
    else:
        assert expected in {None, values}


@pytest.mark.parametrize("length", [0, 31])
def test_missing_data_is_refused(length):
    with pytest.raises(DecodingError):
        decode(("uint256",), bytes(length))


def test_pointer_beyond_all_data_is_refused():
    with pytest.raises(DecodingError):
        decode(("bytes",), b"\xff" * WORD_BYTES)
