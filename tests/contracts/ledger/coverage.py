# SPDX-License-Identifier: Apache-2.0
"""What a campaign must have seen, by the contracts' own ABIs and the table of moves, to prove
something.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from tests.contracts.ledger.calls import MODEL
from tests.contracts.ledger.random_calls import INNER
from tests.contracts.ledger.replay import Replay

from gridstead.domain.lifecycle import LEGAL

# Roles never change their administrator; the one writer of records keeps its role.
NEVER_TOLD = {
    ("JobRepository", "RoleRevoked"),
    *((contract, "RoleAdminChanged") for contract in MODEL),
}
# Only another contract of the grid may call these, so each is called, and refused.
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
    """Return what was never seen of that which exists, by its kind; nothing if all was seen."""
    texts = {arguments[0] for name, arguments in replay.refusals if name == "Error"}
    found = {
        "moves": {(start, end) for start, ends in LEGAL.items() for end in ends}
        - set(replay.moves),
        "functions that no sequence called": _entries("function") - set(replay.called),
        "functions that were always refused": _entries("function")
        - NEVER_ACCEPTED
        - set(replay.accepted),
        "errors": {name for _, name in _entries("error")} - {name for name, _ in replay.refusals},
        "events": _entries("event") - NEVER_TOLD - set(replay.told),
        "texts": {words for words in TEXTS if not any(text.startswith(words) for text in texts)},
        "panics": PANICS - {arguments[0] for name, arguments in replay.refusals if name == "Panic"},
    }
    return {kind: _sorted(missing) for kind, missing in found.items() if missing}


@cache
def _entries(kind: str) -> frozenset[tuple[str, str]]:
    """Return contract and name of each entry of the ABIs of that kind; of functions those that
    write.
    """
    found = set()
    for contract in MODEL:
        abi = json.loads((files("gridstead") / "abi" / f"{contract}.json").read_text())["abi"]
        entries = [one for one in abi if one["type"] == kind]
        found |= {
            (contract, one["name"])
            for one in entries
            if one.get("stateMutability") not in ("view", "pure")
        }
    return frozenset(found)


def _sorted(things: Iterable[object]) -> list:
    return sorted(things, key=str)
