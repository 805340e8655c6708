# SPDX-License-Identifier: Apache-2.0
"""What a campaign must cover. A campaign plays random sequences of contract calls.

A campaign must cover the functions, events and errors in the contracts' ABIs, and the transitions
of a job's state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import product

from tests.contracts.ledger.calls import MODEL_FUNCTIONS
from tests.contracts.ledger.random_calls import INTERNAL_CONTRACTS
from tests.contracts.ledger.replay import Replay

from gridstead.domain.jobs.lifecycle import LEGAL_TRANSITIONS

# No function changes the admin role of a role, and no call revokes a role in JobRepository.
NEVER_EMITTED = {
    ("JobRepository", "RoleRevoked"),
    *((contract, "RoleAdminChanged") for contract in MODEL_FUNCTIONS),
}
# Only another contract of the grid may call these functions, so every call is refused.
NEVER_ACCEPTED = {("ProviderManager", "incJobCount")}
for internal_contract in INTERNAL_CONTRACTS:
    NEVER_ACCEPTED |= set(product([internal_contract], MODEL_FUNCTIONS[internal_contract]))
ERROR_TEXTS = {
    "AccessControl: account",
    "AccessControl: can only renounce roles for self",
    "Ownable: caller is not the owner",
    "Ownable2Step: caller is not the new owner",
    "Ownable: new owner is the zero address",
    "Constants: value out of bounds",
    "ProviderManager: price above bound",
    "ERC20: insufficient allowance",
    "ERC20: transfer amount exceeds balance",
    "ERC20: transfer to the zero address",
    "ERC20: mint to the zero address",
    "ERC20: approve to the zero address",
    "ERC20: decreased allowance below zero",
    "ERC20Permit: expired deadline",
    "ERC20Permit: invalid signature",
    "ECDSA: invalid signature 's' value",
}
PANIC_CODES = {"0x11", "0x21"}


def coverage_gaps(replay: Replay) -> dict[str, list]:
    """Return the sorted entries that the campaign has not covered, by kind of entry.

    The result is empty if the campaign has covered all entries.
    """
    texts = tuple(arguments[0] for name, arguments in replay.refusals if name == "Error")
    panics = {arguments[0] for name, arguments in replay.refusals if name == "Panic"}
    transitions: set[tuple[object, object]] = set()
    for start, ends in LEGAL_TRANSITIONS.items():
        transitions |= set(product([start], ends))
    functions = _entries("function")
    errors = {name for _, name in _entries("error")}
    uncovered = {
        "transitions": transitions - set(replay.transitions),
        "functions that were never called": functions - set(replay.called),
        "functions that were always refused": functions - NEVER_ACCEPTED - set(replay.accepted),
        "errors": errors - {name for name, _ in replay.refusals},
        "events": _entries("event") - NEVER_EMITTED - set(replay.events),
        "texts": {text for text in ERROR_TEXTS if not _has_text_with_prefix(texts, text)},
        "panics": PANIC_CODES - panics,
    }
    return {kind: _sorted_by_text(items) for kind, items in uncovered.items() if items}


def _has_text_with_prefix(texts: Iterable[str], prefix: str) -> bool:
    return any(text.startswith(prefix) for text in texts)


@cache
def _entries(kind: str) -> frozenset[tuple[str, str]]:
    """Return (contract, name) of each entry of this kind in the ABIs. Views are left out."""
    entries: set[tuple[str, str]] = set()
    for contract in MODEL_FUNCTIONS:
        abi = json.loads((files("gridstead") / "abi" / f"{contract}.json").read_text())["abi"]
        for entry in abi:
            is_view = entry.get("stateMutability") in ("view", "pure")
            if entry["type"] == kind and not is_view:
                entries.add((contract, entry["name"]))
    return frozenset(entries)


def _sorted_by_text(items: Iterable[object]) -> list:
    return sorted(items, key=str)
