# SPDX-License-Identifier: Apache-2.0
"""Tests that the contracts have every function, event and error of the ABI of DeepSquare 1.2.

They also have those of our release 2.0.0, and of OpenZeppelin only those that are listed here.
"""

from pathlib import Path

import pytest
from eth_utils import keccak

TABLE = Path(__file__).with_name("published_abi.txt")
EVERY_CONTRACT = (
    "Constants",
    "Credit",
    "JobRepository",
    "MetaScheduler",
    "ProviderJobQueues",
    "ProviderManager",
)
# DeepSquare 1.2 defines some errors in library Tools. Our contracts define them elsewhere.
CONTRACTS_WITH_ERRORS_OF = {"Tools": ("JobRepository",)}
EARLIER_RELEASE = "2.0.0"
# What contract Credit inherits from OpenZeppelin 4.9 in addition to the entries of 2.0.0.
CREDIT_ADDITIONS = {
    "eip712Domain()",
    "EIP712DomainChanged()",
    "InvalidShortString()",
    "StringTooLong(string)",
}


def published_rows():
    """Yield the rows of the table: contract, type, selector or topic, signature and details."""
    contract = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("["):
            contract = line.strip("[]")
        elif line and not line.startswith("#"):
            yield contract, *line.split(" ", 3)


def to_type(parameter):
    """Return a type as in a signature, such as ``(uint256,string)`` for a struct of two members."""
    abi_type = parameter["type"]
    if not abi_type.startswith("tuple"):
        return abi_type
    return to_types(parameter["components"]) + abi_type.removeprefix("tuple")


def to_types(parameters):
    return f"({','.join(map(to_type, parameters))})"


def to_entry(entry):
    """Return an entry of an ABI in the format of the table, or None for a constructor."""
    if entry["type"] == "constructor":
        return None
    signature = entry["name"] + to_types(entry["inputs"])
    digest = keccak(text=signature).hex()
    match entry["type"]:
        case "function":
            return ["function", f"0x{digest[:8]}", signature, f"-> {to_types(entry['outputs'])}"]
        case "event":
            # One character for each parameter: "*" if it is indexed.
            marks = "".join("*" if parameter["indexed"] else "." for parameter in entry["inputs"])
            return ["event", f"0x{digest}", signature, marks]
        case "error":
            return ["error", f"0x{digest[:8]}", signature]
        case kind:
            raise AssertionError(kind)


@pytest.mark.parametrize(
    ("contract", "entry"), [(row[0], list(row[1:])) for row in published_rows()]
)
def test_contract_has_the_published_entry(read_artifact, contract, entry):
    names = CONTRACTS_WITH_ERRORS_OF.get(contract, (contract,))

    entries = []
    for name in names:
        entries += map(to_entry, read_artifact(name)["abi"])
    assert entry in entries


def entries_of(artifact):
    """Return the entries of an artifact in the format of the table, without the constructor."""
    return list(filter(None, map(to_entry, artifact["abi"])))


@pytest.mark.parametrize("name", EVERY_CONTRACT)
def test_contract_has_every_entry_of_the_earlier_release(read_artifact, name):
    entries = entries_of(read_artifact(name))

    for entry in entries_of(read_artifact(f"{EARLIER_RELEASE}/{name}")):
        assert entry in entries


def test_credit_has_only_the_listed_additions(read_artifact):
    earlier = entries_of(read_artifact(f"{EARLIER_RELEASE}/Credit"))

    additions = [entry for entry in entries_of(read_artifact("Credit")) if entry not in earlier]

    assert {signature for _, _, signature, *_ in additions} == CREDIT_ADDITIONS


@pytest.mark.parametrize("name", EVERY_CONTRACT)
def test_no_function_is_overloaded(read_artifact, name):
    """Our adapter and other clients select functions by their names."""
    names = [entry["name"] for entry in read_artifact(name)["abi"] if entry["type"] == "function"]

    assert len(set(names)) == len(names)


def test_event_with_a_published_topic_indexes_the_published_parameters(read_artifact):
    # The published marks of indexed parameters, by topic.
    topics = {row[2]: row[4] for row in published_rows() if row[1] == "event"}

    for name in EVERY_CONTRACT:
        for entry in read_artifact(name)["abi"]:
            if entry["type"] == "event":
                _, topic, _, marks = to_entry(entry)
                assert topics.get(topic, marks) == marks
