# SPDX-License-Identifier: Apache-2.0
"""What a campaign must cover, derived from the contracts' ABIs and the table of transitions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from tests.contracts.ledger.calls import MODEL
from tests.contracts.ledger.random_calls import INNER
from tests.contracts.ledger.replay import Replay

from gridstead.domain.jobs.lifecycle import LEGAL

# The admin role of a role never changes, and the writer of records keeps its role.
NEVER_EMITTED = {
    ("JobRepository", "RoleRevoked"),
    *((contract, "RoleAdminChanged") for contract in MODEL),
}
# Only another contract of the grid may call these functions, so every call is refused.
NEVER_ACCEPTED = {(contract, name) for contract in INNER for name in MODEL[contract]}
NEVER_ACCEPTED |= {("ProviderManager", "incJobCount")}
TEXTS = {
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
PANICS = {"0x11", "0x21"}


def gaps(replay: Replay) -> dict[str, list]:
    """Return what the campaign has not covered, sorted, by kind; empty if all is covered."""
    texts = tuple(arguments[0] for name, arguments in replay.refusals if name == "Error")
    panics = {arguments[0] for name, arguments in replay.refusals if name == "Panic"}
    transitions: set[tuple[object, object]] = set()
    for start, ends in LEGAL.items():
        transitions |= {(start, end) for end in ends}
    functions = _entries("function")
    errors = {name for _, name in _entries("error")}
    missing = {
        "transitions": transitions - set(replay.moves),
        "functions that were never called": functions - set(replay.called),
        "functions that were always refused": functions - NEVER_ACCEPTED - set(replay.accepted),
        "errors": errors - {name for name, _ in replay.refusals},
        "events": _entries("event") - NEVER_EMITTED - set(replay.events),
        "texts": {text for text in TEXTS if not _is_any_prefixed(texts, text)},
        "panics": PANICS - panics,
    }
    return {kind: _sorted(items) for kind, items in missing.items() if items}


def _is_any_prefixed(texts: Iterable[str], prefix: str) -> bool:
    return any(text.startswith(prefix) for text in texts)


@cache
def _entries(kind: str) -> frozenset[tuple[str, str]]:
    """Return contract and name of each entry of this kind in the ABIs, except views."""
    entries: set[tuple[str, str]] = set()
    for contract in MODEL:
        abi = json.loads((files("gridstead") / "abi" / f"{contract}.json").read_text())["abi"]
        for entry in abi:
            is_view = entry.get("stateMutability") in ("view", "pure")
            if entry["type"] == kind and not is_view:
                entries.add((contract, entry["name"]))
    return frozenset(entries)


def _sorted(things: Iterable[object]) -> list:
    return sorted(things, key=str)
