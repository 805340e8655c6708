# SPDX-License-Identifier: Apache-2.0
"""Clients of DeepSquare 1.2 find every function, event and error with the same selectors."""

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
# Errors of the library Tools: our contracts revert with them in the same cases.
RAISED_BY = {"Tools": ("JobRepository",)}


def published():
    contract = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("["):
            contract = line.strip("[]")
        elif line and not line.startswith("#"):
            yield contract, *line.split(" ", 3)


def to_type(parameter):
    kind = parameter["type"]
    if not kind.startswith("tuple"):
        return kind
    return to_types(parameter["components"]) + kind.removeprefix("tuple")


def to_types(parameters):
    return f"({','.join(map(to_type, parameters))})"


def to_entry(entry):
    if entry["type"] == "constructor":
        return None
    signature = entry["name"] + to_types(entry["inputs"])
    digest = keccak(text=signature).hex()
    match entry["type"]:
        case "function":
            return ["function", f"0x{digest[:8]}", signature, f"-> {to_types(entry['outputs'])}"]
        case "event":
            marks = "".join("*" if parameter["indexed"] else "." for parameter in entry["inputs"])
            return ["event", f"0x{digest}", signature, marks]
        case "error":
            return ["error", f"0x{digest[:8]}", signature]
        case kind:
            raise AssertionError(kind)


@pytest.mark.parametrize(("contract", "entry"), [(row[0], list(row[1:])) for row in published()])
def test_published_entry_exists(artifact, contract, entry):
    names = RAISED_BY.get(contract, (contract,))

    assert any(entry == to_entry(own) for name in names for own in artifact(name)["abi"])


@pytest.mark.parametrize("name", EVERY_CONTRACT)
def test_no_function_is_overloaded(artifact, name):
    """Clients and our adapter find functions by name."""
    names = [entry["name"] for entry in artifact(name)["abi"] if entry["type"] == "function"]

    assert sorted(set(names)) == sorted(names)


def test_no_event_has_a_published_topic_with_other_indexes(artifact):
    topics = {row[2]: row[4] for row in published() if row[1] == "event"}

    for name in EVERY_CONTRACT:
        for entry in artifact(name)["abi"]:
            if entry["type"] == "event":
                _, topic, _, marks = to_entry(entry)
                assert topics.get(topic, marks) == marks
